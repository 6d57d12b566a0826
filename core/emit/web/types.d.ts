/** A batch of samples: at most `manifest.batch_size`, the same number in all arrays. */
export interface Batch {
  inputs: Inputs;
  targets: Targets;
}

/** Name in the model file, shape (a batch first, except for weights) and element type of an array. */
export interface ArrayInfo {
  name: string;
  shape: number[];
  type: "bool" | "float32" | "int8" | "int16" | "int32" | "int64" | "uint8";
}

/** The content of manifest.json, of which this is a part. */
export interface Manifest {
  name: string;
  batch_size: number;
  learning_rate: number;
  inputs: ArrayInfo[];
  targets: ArrayInfo[];
  outputs: ArrayInfo[];
  weights: ArrayInfo[];
}

/**
 * A model in this thread. Its methods throw a TypeError or RangeError for arrays of a wrong number,
 * type or length; then, as after every other error, weights and optimizer are as before.
 */
export interface Model {
  readonly manifest: Manifest;

  /**
   * Trains on a batch. Returns its loss before the update: the mean of the samples, or their sum
   * with `--reduction sum`. The error is named NotFiniteError if the loss is NaN or infinite.
   */
  train(batch: Batch): number;

  /** Returns the loss of a batch. */
  evaluate(batch: Batch): number;

  /** Returns the outputs for as many samples as the inputs have. */
  predict(inputs: Inputs): Outputs;

  /** Returns the weights that train, in the order of `manifest.weights`. */
  getWeights(): Weight[];

  /** Sets the weights that train. */
  setWeights(weights: Weight[]): void;

  /** Sets the learning rate of the next steps. */
  setLearningRate(rate: number): void;

  /** Sets the seed of random numbers, such as those of dropout, as `odt train --seed`. */
  setSeed(seed: number): void;

  /** Sets the weights to those of the model file, and resets optimizer, learning rate and seed. */
  reset(): void;

  /** Returns weights, optimizer state, number of steps, learning rate and seed. */
  save(): Uint8Array;

  /** Restores what `save` returned. The error is named StateError if it is from another program. */
  load(state: Uint8Array): void;

  /** Returns the model file with the weights of now, as `odt train` exports it. */
  exportModel(): Uint8Array;
}

/** A model in a worker. Calls run in the order in which they are made. */
export type ModelInWorker = { readonly manifest: Manifest; terminate(): void } & {
  [K in Exclude<keyof Model, "manifest">]: (
    ...args: Parameters<Model[K]>
  ) => Promise<ReturnType<Model[K]>>;
};

/**
 * Opens the model in this thread.
 *
 * @param options.folder URL of the folder with manifest.json and the files that it names; that of
 *   this module if left out.
 */
export function open(options?: { folder?: string | URL }): Promise<Model>;

/**
 * Opens the model in a worker, which runs this module.
 *
 * @param options.worker the worker, if you start it yourself.
 */
export function openWorker(options?: {
  folder?: string | URL;
  worker?: Worker;
}): Promise<ModelInWorker>;
