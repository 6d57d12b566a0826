// The worker: decodes and prepares samples, trains, predicts. The page only shows what it reports.
//
// Messages: { id, method, argument } → { id, result } or { id, error }, and { event, … } on the way.

import { resize, scaled } from "./photos.js";
import { nameClasses } from "./record.js";
import { Samples } from "./samples.js";
import { readWave, spectrogram, standardized } from "./sounds.js";
import { Network } from "./training.js";

const THUMBNAIL = 96; // pixels
const REPORT = 100; // milliseconds between reports of steps, so that the page has little to draw

let recipe; // the task: kind, shape, preprocessing
let network;
let samples;
let stopping = false;

const methods = {
  /** Opens the program of a task, such as "photos". */
  async open(task) {
    const folder = new URL(`./${task}/`, self.location.href);
    const [{ open }, response] = await Promise.all([
      import(new URL(`${task}.js`, folder)),
      fetch(new URL("recipe.json", folder)),
    ]);
    recipe = await response.json();
    network = new Network(await open(), recipe.classes);
    samples = new Samples(recipe.classes);
    return recipe;
  },

  /** Adds files or decoded sounds to a class; returns the names of those that are none. */
  async add({ label, sources }) {
    const wrong = [];
    for (const source of sources) {
      const sample = await prepared(source).catch(() => null);
      if (!sample) {
        wrong.push(source.name);
        continue;
      }
      samples.add(label, sample.input);
      self.postMessage(
        { event: "sample", label, count: samples.counts[label], picture: sample.picture },
        [sample.picture],
      );
      await pause();
    }
    return wrong;
  },

  clear(label) {
    samples.clear(label);
  },

  async train(epochs) {
    stopping = false;
    let steps = [];
    let last = performance.now();
    const report = () => {
      self.postMessage({ event: "steps", steps });
      steps = [];
      last = performance.now();
    };
    await network.train(samples.split(), epochs, {
      pause,
      onStep: (step) => {
        steps.push(step);
        if (performance.now() - last > REPORT) report();
      },
      onEpoch: (epoch) => self.postMessage({ event: "epoch", ...epoch }),
    });
    report();
    return { stopped: stopping };
  },

  stop() {
    stopping = true;
  },

  /** Returns the probabilities of a file or decoded sound; null if it is none. */
  async predict(source) {
    const sample = await prepared(source).catch(() => null);
    return sample && { picture: sample.picture, row: network.predict([sample.input])[0] };
  },

  /** Returns the trained model file, with the names of the classes. */
  model(names) {
    const bytes = network.program.exportModel();
    nameClasses(bytes, names);
    return bytes;
  },
};

/** Lets messages in that wait; false if one of them was "stop". */
function pause() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve(!stopping);
    };
    port2.postMessage(null);
  });
}

/** Returns the network's input and a small picture of a photo (file) or a sound (file, samples). */
async function prepared(source) {
  return recipe.kind === "image" ? photo(source.file ?? source.image) : sound(source);
}

async function photo(file) {
  const { height, width } = recipe;
  // Neither colors nor transparency may change the values; the camera's orientation is applied.
  const options = { colorSpaceConversion: "none", premultiplyAlpha: "none" };
  const bitmap = file instanceof ImageBitmap ? file : await createImageBitmap(file, options);
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  const pixels = resize(context.getImageData(0, 0, bitmap.width, bitmap.height), width, height);
  const side = Math.min(bitmap.width, bitmap.height);
  const picture = await createImageBitmap(
    bitmap,
    (bitmap.width - side) / 2,
    (bitmap.height - side) / 2,
    side,
    side,
    { resizeWidth: THUMBNAIL, resizeHeight: THUMBNAIL, resizeQuality: "medium" },
  );
  bitmap.close();
  return { input: scaled(pixels), picture };
}

async function sound({ file, samples: decoded }) {
  const wave = decoded ?? readWave(await file.arrayBuffer());
  if (!wave) return null;
  const values = spectrogram(wave, recipe.sound);
  const picture = await createImageBitmap(drawing(values, recipe.sound));
  return { input: standardized(values, recipe.mean, recipe.std), picture };
}

/** A spectrogram as a picture: time from left to right, low sounds at the bottom. */
function drawing(values, { mel, floor }) {
  const frames = values.length / mel;
  const image = new ImageData(frames, mel);
  values.forEach((value, n) => {
    const light = 1 + value / floor;
    const pixel = (mel - 1 - (n % mel)) * frames + Math.floor(n / mel);
    image.data.set([30 + 215 * light, 45 + 160 * light ** 1.5, 80 + 40 * light, 255], 4 * pixel);
  });
  return image;
}

self.onmessage = async ({ data: { id, method, argument } }) => {
  try {
    const result = await methods[method](argument);
    self.postMessage({ id, result }, result?.picture ? [result.picture] : []);
  } catch (error) {
    self.postMessage({ id, error: error.message });
  }
};
