/* Times training of the MLP by TensorFlow.js on WebAssembly, as step.mjs does: node tfjs.mjs BATCH

   It runs in a folder with the packages. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.cwd()}/`);
const tf = require("@tensorflow/tfjs");
const { setWasmPaths } = require("@tensorflow/tfjs-backend-wasm");
setWasmPaths(`${process.cwd()}/node_modules/@tensorflow/tfjs-backend-wasm/dist/`);
await tf.setBackend("wasm");

const model = tf.sequential({
  layers: [
    tf.layers.dense({ inputShape: [784], units: 128, activation: "relu" }),
    tf.layers.dense({ units: 10, activation: "softmax" }),
  ],
});
model.compile({ optimizer: tf.train.adam(1e-3), loss: "categoricalCrossentropy" });
const bytes = readFileSync(process.argv[2]);
const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const samples = values.length / 794;
const x = tf.tensor2d(values.slice(0, samples * 784), [samples, 784]);
const y = tf.tensor2d(values.slice(samples * 784), [samples, 10]);

for await (const line of createInterface({ input: process.stdin })) {
  const before = process.cpuUsage();
  for (let k = 0; k < Number(line); k++) await model.trainOnBatch(x, y);
  const { user, system } = process.cpuUsage(before);
  console.log((user + system) / 1000 / Number(line));
}
