// The samples of each class, and which of them are held back to test the network.

const HELD_BACK = 5; // every fifth sample of a class

export class Samples {
  /** @param {number} classes - number of classes */
  constructor(classes) {
    this.classes = Array.from({ length: classes }, () => []);
  }

  /** Adds a sample: the input of the network, without the axis of the batch. */
  add(label, input) {
    this.classes[label].push(input);
  }

  clear(label) {
    this.classes[label] = [];
  }

  get counts() {
    return this.classes.map((inputs) => inputs.length);
  }

  /**
   * Divides the samples.
   *
   * Every fifth sample of a class is held back, of fewer than five the last one. Classes are spread
   * evenly over the order, which is the same in each epoch, so that the same samples give the same
   * model.
   *
   * @returns {{training: {input, label}[], heldBack: {input, label}[]}}
   */
  split() {
    const training = [];
    const heldBack = [];
    this.classes.forEach((inputs, label) => {
      const isHeldBack = (k) =>
        inputs.length < HELD_BACK ? k === inputs.length - 1 : k % HELD_BACK === HELD_BACK - 1;
      const rest = inputs.filter((_, k) => !isHeldBack(k));
      rest.forEach((input, k) => training.push({ input, label, place: (k + 0.5) / rest.length }));
      inputs.forEach((input, k) => isHeldBack(k) && heldBack.push({ input, label }));
    });
    training.sort((a, b) => a.place - b.place);
    return { training, heldBack };
  }
}
