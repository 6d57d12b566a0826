// The page: classes, training and result. The worker computes, see worker.js.

import { capture, decodeSound } from "./capture.js";
import { LossChart } from "./chart.js";
import { showConfusion } from "./confusion.js";
import { Engine } from "./engine.js";

const PICTURES = 12; // that a class shows
const NAMED = 3; // wrong files that a message names
const WORDS = {
  image: {
    one: "photo",
    accept: "image/*",
    device: "camera",
    kind: "photos that this browser can show, such as JPEG, PNG or WebP",
  },
  sound: {
    one: "sound",
    accept: "audio/*,.wav",
    device: "microphone",
    kind: "sounds that this browser can play, such as WAV, MP3 or M4A",
  },
};

const $ = (id) => document.getElementById(id);
const chart = new LossChart($("chart"));

let engine;
let recipe;
let classes = []; // { name (input), count, elements }
let run = null; // { epochs, used, test } of the last training

// The task

async function open(task) {
  engine?.close();
  const opened = (engine = new Engine((event) => engine === opened && onEvent(event)));
  run = null;
  classes = [];
  $("classes").replaceChildren();
  $("run").hidden = $("result").hidden = true;
  $("prediction").replaceChildren();
  $("stop").disabled = $("train").disabled = true;
  say("problem", "");
  say("status", "Loading the network.");
  try {
    const answer = await opened.call("open", task);
    if (engine !== opened) return;
    recipe = answer;
  } catch (error) {
    if (engine === opened) say("problem", `The network cannot be loaded: ${error.message}`);
    return;
  } finally {
    if (engine === opened) say("status", "");
  }
  $("epochs").value = recipe.epochs;
  $("train").disabled = false;
  $("try").accept = word("accept");
  $("try-text").textContent = `Try a ${word("one")}`;
  $("try-capture").textContent = `Try the ${word("device")}`;
  classes = Array.from({ length: recipe.classes }, (_, label) => classCard(label));
}

const word = (name) => WORDS[recipe.kind][name];

function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** Writes a text that screen readers announce, if it changes. */
function say(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

// Classes

function classCard(label) {
  const item = $("class").content.cloneNode(true).firstElementChild;
  const part = (name) => item.querySelector(`.${name}`);
  const card = { count: 0, name: part("class-name"), part };
  const title = () => nameOf(label);
  card.name.placeholder = `Class ${label + 1}`;
  part("files").accept = word("accept");
  part("add-text").textContent = `Add ${word("one")}s`;
  part("capture").textContent = recipe.kind === "image" ? "Camera" : "Microphone";
  const describe = () => {
    part("files").setAttribute("aria-label", `Add ${word("one")}s to ${title()}`);
    part("capture").setAttribute("aria-label", `Use the ${word("device")} for ${title()}`);
    part("clear").setAttribute("aria-label", `Remove all ${word("one")}s of ${title()}`);
  };
  const name = card.name.closest("label");
  name.firstChild.textContent = `Name of class ${label + 1} `;
  card.name.oninput = describe;
  part("files").onchange = async ({ target }) => {
    const files = [...target.files];
    target.value = ""; // so that the same files can be chosen again
    await add(label, files);
  };
  part("capture").onclick = () =>
    useDevice(`${title()}: ${word("device")}`, (source) => addSources(label, [source]));
  part("clear").onclick = async () => {
    await engine.call("clear", label);
    part("pictures").replaceChildren();
    showCount(card, 0);
    part("files").focus();
  };
  $("classes").append(item);
  describe();
  showCount(card, 0);
  return card;
}

/** The name of a class as its user gave it. */
function nameOf(label) {
  const input = classes[label]?.name;
  return input?.value.trim() || `Class ${label + 1}`;
}

function showCount(card, count) {
  card.count = count;
  card.part("count").textContent = count ? counted(count, word("one")) : `No ${word("one")}s yet`;
  card.part("clear").disabled = !count;
}

/** Adds files to a class, and says in one sentence which of them are wrong. */
async function add(label, files) {
  say("problem", "");
  const sources = [];
  const wrong = [];
  for (const file of files) {
    const source = await sourceOf(file);
    if (source) sources.push(source);
    else wrong.push(file.name);
  }
  wrong.push(...(await engine.call("add", { label, sources })));
  say("status", `${nameOf(label)} has ${counted(classes[label].count, word("one"))}.`);
  if (wrong.length) say("problem", refusal(wrong));
}

async function addSources(label, sources) {
  const wrong = await engine.call("add", { label, sources });
  if (wrong.length) say("problem", `The ${word("one")} cannot be used.`);
}

function refusal(names) {
  const rest = names.length - NAMED;
  const listed = names.slice(0, NAMED).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
  return `Only ${word("kind")}, can be used, but not ${listed}.`;
}

/** A file as the worker takes it; null for a sound that the browser cannot decode. */
async function sourceOf(file) {
  if (recipe.kind === "image" || (await isWave(file))) return { name: file.name, file };
  try {
    return { name: file.name, samples: await decodeSound(await file.arrayBuffer()) };
  } catch {
    return null;
  }
}

/** Whether the worker reads a sound file itself. */
async function isWave(file) {
  const start = String.fromCharCode(...new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  return start.startsWith("RIFF") && start.endsWith("WAVE");
}

async function useDevice(title, onSource) {
  say("problem", "");
  try {
    await capture(recipe.kind, title, onSource);
  } catch (error) {
    say("problem", error.message);
  }
}

// Training

async function train() {
  const used = classes.flatMap((card, label) => (card.count ? [label] : []));
  const small = used.filter((label) => classes[label].count < 2);
  if (used.length < 2 || small.length) {
    const lacking = small.length ? `, but ${nameOf(small[0])} has 1` : "";
    say("problem", `At least two classes with two or more ${word("one")}s are needed${lacking}.`);
    return;
  }
  say("problem", "");
  run = { epochs: $("epochs").valueAsNumber, used, announced: performance.now() };
  chart.reset(run.epochs);
  $("run").hidden = false;
  $("progress").value = 0;
  running(true);
  say("status", "Training has begun.");
  $("stop").focus();
  try {
    const { stopped } = await engine.call("train", run.epochs);
    const end = stopped ? "Stopped" : "Done";
    say("status", run.epoch ? `${end}. ${lossText()} ${rightText()}` : `${end}.`);
  } catch (error) {
    say("problem", `Training has ended: ${error.message}`);
  } finally {
    const hasFocus = document.activeElement === $("stop");
    running(false);
    if (hasFocus) $("train").focus();
  }
}

function running(is) {
  $("train").disabled = is;
  $("stop").disabled = !is;
  for (const id of ["download", "try", "try-capture"]) $(id).disabled = is || !run.epoch;
  for (const card of classes) {
    for (const name of ["files", "capture"]) card.part(name).disabled = is;
    card.part("clear").disabled = is || !card.count;
  }
}

const ANNOUNCEMENTS = 4000; // milliseconds between texts for screen readers

function onEvent(event) {
  if (event.event === "sample") {
    const card = classes[event.label];
    showCount(card, event.count);
    if (event.count <= PICTURES) card.part("pictures").append(drawn(event.picture));
    else event.picture.close();
  } else if (event.event === "steps") {
    for (const { epoch, loss } of event.steps) chart.addStep(epoch, loss);
    if (event.steps.length) $("progress").value = event.steps.at(-1).epoch / run.epochs;
  } else if (event.event === "epoch") {
    run.epoch = event;
    chart.addTest(event.epoch, event.test.loss);
    $("chart").setAttribute("aria-label", `Loss curve. ${lossText()}`);
    showResult();
    if (performance.now() - run.announced > ANNOUNCEMENTS) {
      run.announced = performance.now();
      say("status", lossText());
    }
  }
}

function lossText() {
  const { epoch, loss, test } = run.epoch;
  return (
    `Epoch ${epoch} of ${run.epochs}, loss ${loss.toFixed(3)} in training and ` +
    `${test.loss.toFixed(3)} on held-back samples.`
  );
}

/** Returns a canvas with a picture, which is moved there. */
function drawn(picture) {
  const canvas = document.createElement("canvas");
  canvas.width = picture.width;
  canvas.height = picture.height;
  canvas.getContext("bitmaprenderer").transferFromImageBitmap(picture);
  return canvas;
}

// The result

function showResult() {
  const { confusion } = run.epoch.test;
  $("result").hidden = false;
  $("accuracy").textContent = rightText();
  const rows = run.used.map((label) => run.used.map((k) => confusion[label][k]));
  showConfusion($("confusion"), run.used.map(nameOf), rows);
}

function rightText() {
  const { confusion } = run.epoch.test;
  const right = run.used.reduce((sum, label) => sum + confusion[label][label], 0);
  const all = confusion.flat().reduce((a, b) => a + b, 0);
  const percent = Math.round((100 * right) / all);
  return `${right} of ${all} held-back ${word("one")}s are right (${percent} %).`;
}

async function download() {
  try {
    const bytes = await engine.call("model", classes.map((_, label) => nameOf(label)));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytes]));
    link.download = `trained-${recipe.name}.tflite`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  } catch (error) {
    say("problem", error.message);
  }
}

async function predict(source) {
  const answer = source && (await engine.call("predict", source));
  if (!answer) return say("problem", refusal([source?.name ?? "this file"]));
  const rows = run.used
    .map((label) => ({ name: nameOf(label), part: answer.row[label] }))
    .sort((a, b) => b.part - a.part)
    .map(({ name, part }) => {
      const item = document.createElement("li");
      item.textContent = `${name}: ${Math.round(100 * part)} %`;
      return item;
    });
  const list = document.createElement("ol");
  list.append(...rows);
  $("prediction").replaceChildren(drawn(answer.picture), list);
}

// Events

document.querySelector(".tasks").onchange = ({ target }) => open(target.value);
$("training").onsubmit = (event) => {
  event.preventDefault();
  train();
};
$("stop").onclick = () => engine.call("stop");
$("download").onclick = download;
$("try").onchange = async ({ target }) => {
  const [file] = target.files;
  say("problem", "");
  if (file) await predict((await sourceOf(file)) ?? { name: file.name });
  target.value = "";
};
$("try-capture").onclick = () => useDevice(`Try the ${word("device")}`, predict);

open(document.querySelector("input[name=task]:checked").value);

if ("serviceWorker" in navigator) {
  navigator.serviceWorker
    .register("service-worker.js")
    .then(() => navigator.serviceWorker.ready)
    .then(() => say("offline", "Everything stays on this device. The page also works offline now."))
    .catch(() => {}); // the page works without it, but not offline
}
