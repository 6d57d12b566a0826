// Training of a compiled network on samples, epoch by epoch.

const SMALLEST = 1e-7; // probability, so that its logarithm is finite

/** A network that was compiled by `odt compile --target wasm`, with the classes as its output. */
export class Network {
  /**
   * @param program - the model of the compiled program
   * @param {number} classes - number of outputs
   */
  constructor(program, classes) {
    this.program = program;
    this.classes = classes;
    this.batch = program.manifest.batch_size;
  }

  /** Computes the probability of each class for each input. */
  predict(inputs) {
    const rows = [];
    for (const part of batches(inputs, this.batch)) {
      const [output] = this.program.predict([joined(part)]);
      part.forEach((_, k) => rows.push(output.slice(k * this.classes, (k + 1) * this.classes)));
    }
    return rows;
  }

  /** Computes loss and confusion (true class, predicted class) of samples. */
  async evaluate(samples, pause) {
    const confusion = Array.from({ length: this.classes }, () => Array(this.classes).fill(0));
    let sum = 0;
    for (const part of batches(samples, this.batch)) {
      this.predict(part.map((s) => s.input)).forEach((row, k) => {
        confusion[part[k].label][row.indexOf(Math.max(...row))] += 1;
        sum -= Math.log(Math.max(row[part[k].label], SMALLEST));
      });
      await pause();
    }
    return { loss: sum / samples.length, confusion };
  }

  /**
   * Trains from the weights of the model file.
   *
   * @param {{training: {input, label}[], heldBack: {input, label}[]}} split
   * @param {number} epochs
   * @param {object} run
   * @param {() => Promise<boolean>} run.pause - lets other messages in; false to stop
   * @param {(step: object) => void} run.onStep - called after each batch
   * @param {(epoch: object) => void} run.onEpoch - called after each epoch
   */
  async train({ training, heldBack }, epochs, { pause, onStep, onEpoch }) {
    this.program.reset();
    const steps = batches(training, this.batch);
    for (let epoch = 1; epoch <= epochs; epoch++) {
      let sum = 0;
      for (const [k, part] of steps.entries()) {
        const loss = this.program.train({
          inputs: [joined(part.map((s) => s.input))],
          targets: [this.oneHot(part.map((s) => s.label))],
        });
        sum += loss * part.length;
        onStep({ epoch: epoch - 1 + (k + 1) / steps.length, loss });
        if (!(await pause())) return;
      }
      onEpoch({ epoch, loss: sum / training.length, test: await this.evaluate(heldBack, pause) });
    }
  }

  oneHot(labels) {
    const rows = new Float32Array(labels.length * this.classes);
    labels.forEach((label, k) => (rows[k * this.classes + label] = 1));
    return rows;
  }
}

/** Cuts a list into parts of `size` elements; the last one may be shorter. */
export function batches(list, size) {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, k) =>
    list.slice(k * size, (k + 1) * size),
  );
}

function joined(arrays) {
  const whole = new Float32Array(arrays.length * arrays[0].length);
  arrays.forEach((a, k) => whole.set(a, k * a.length));
  return whole;
}
