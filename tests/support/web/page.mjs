/* Three steps, and three faults: the same calls for open() in node and openWorker() in a page. */

export async function train(model) {
  let seed = 1;
  const random = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
    return (seed >>> 8) / 2 ** 24;
  };
  const batch = (samples) => ({
    inputs: [Float32Array.from({ length: samples * 784 }, random)],
    targets: [Float32Array.from({ length: samples * 10 }, (_, k) => (k % 10 === 3 ? 1 : 0))],
  });
  // Made without waiting: calls run in order.
  const calls = [32, 32, 5].map(batch).map((each) => model.train(each));
  const losses = await Promise.all(calls);
  const errors = [];
  for (const call of [
    () => model.train(batch(33)),
    () => model.predict([new Int32Array(784)]),
    () => model.load(new Uint8Array(8)),
  ]) {
    try {
      await call();
    } catch ({ name }) {
      errors.push(name);
    }
  }
  const weights = (await model.getWeights()).map((w) => w.reduce((a, b) => a + b, 0));
  return { losses, errors, weights };
}

if (globalThis.process) {
  const { pathToFileURL } = await import("node:url");
  const { open } = await import(pathToFileURL(process.argv[2]));
  console.log(JSON.stringify(await train(await open())));
}
