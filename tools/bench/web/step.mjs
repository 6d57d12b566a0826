/* Times training in node: node step.mjs MODULE BATCH

   Each line of standard input is a number of steps; the answer is the processor time of a step in
   ms. BATCH holds inputs and targets in the order of the manifest. */

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [module, file] = process.argv.slice(2);
const { open } = await import(pathToFileURL(module));
const model = await open();
const bytes = readFileSync(file);
let at = bytes.byteOffset;
const next = ({ shape }) => {
  const length = shape.reduce((a, b) => a * b, 1);
  at += 4 * length;
  return new Float32Array(bytes.buffer.slice(at - 4 * length, at));
};
const batch = { inputs: model.manifest.inputs.map(next), targets: model.manifest.targets.map(next) };

for await (const line of createInterface({ input: process.stdin })) {
  const before = process.cpuUsage();
  for (let k = 0; k < Number(line); k++) model.train(batch);
  const { user, system } = process.cpuUsage(before);
  console.log((user + system) / 1000 / Number(line));
}
