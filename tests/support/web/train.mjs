/* Trains on the batches of a folder and writes what the model computes: node train.mjs MODULE FOLDER

   batches.bin holds inputs and targets of each batch; the last batch is also evaluated. */

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const ARRAYS = { float32: Float32Array, int32: Int32Array };
const [module, folder] = process.argv.slice(2);
const { open } = await import(pathToFileURL(module));
const model = await open();
const { manifest } = model;
const bytes = readFileSync(`${folder}/batches.bin`);
let at = 0;

function next({ shape, type }) {
  const length = shape.reduce((a, b) => a * b, 1);
  const array = new ARRAYS[type](bytes.buffer.slice(bytes.byteOffset + at, bytes.byteOffset + at + 4 * length));
  at += 4 * length;
  return array;
}

function batches() {
  at = 0;
  const all = [];
  while (at < bytes.length) {
    all.push({ inputs: manifest.inputs.map(next), targets: manifest.targets.map(next) });
  }
  return all;
}

function write(name, arrays) {
  writeFileSync(`${folder}/${name}.bin`, Buffer.concat(arrays.map((a) => Buffer.from(a.buffer))));
}

const each = batches();
const losses = [];
let state;
each.forEach((batch, k) => {
  if (k === each.length >> 1) state = model.save();
  losses.push(model.train(batch));
});
losses.push(model.evaluate(each.at(-1)));
write("losses", [Float32Array.from(losses)]);
write("outputs", model.predict(each.at(-1).inputs));
const weights = model.getWeights();
write("weights", weights);
write("exported", [model.exportModel()]);

model.reset();
model.load(state);
each.slice(each.length >> 1).forEach((batch) => model.train(batch));
write("continued", model.getWeights());
