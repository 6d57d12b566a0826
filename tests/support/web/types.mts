/* What a user writes in TypeScript; nothing runs. */

import { type Model, open, openWorker } from "./web/mnist.js";

const model: Model = await open({ folder: new URL("https://example.org/web/") });
const batch = { inputs: [new Float32Array(784)], targets: [new Float32Array(10)] } satisfies {
  inputs: [Float32Array];
  targets: [Float32Array];
};
const loss: number = model.train(batch) + model.evaluate(batch);
const [output] = model.predict(batch.inputs);
const first: number = output[0] ?? loss;
model.setWeights(model.getWeights());
model.load(model.save());
model.exportModel() satisfies Uint8Array;
model.setLearningRate(first / model.manifest.batch_size);
model.reset();

const other = await openWorker();
const later: Promise<number> = other.train(batch);
await later;
other.terminate();

// @ts-expect-error: inputs of this model are float32
model.predict([new Int32Array(784)]);
// @ts-expect-error: it has one input
await other.predict([]);
