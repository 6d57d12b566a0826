/* Trains a model in WebAssembly. Written by odt, and the same for every model: manifest.json says
   what the model takes. The types are in the .d.ts file beside this one. */

const ARRAYS = {
  bool: Uint8Array,
  float32: Float32Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
};
const METHODS = [
  "train",
  "evaluate",
  "predict",
  "getWeights",
  "setWeights",
  "setLearningRate",
  "setSeed",
  "reset",
  "save",
  "load",
  "exportModel",
];
const FAULTS = {
  1: ["NotFiniteError", "The loss or a number is not finite; nothing was changed."],
  2: ["StateError", "The state is not from save() of this model."],
  4: ["RangeError", "A batch cannot have this number of samples."],
};
const PAGE = 65536; // bytes by which memory grows
const ALIGNMENT = 16; // of arrays in memory

export async function open({ folder = "." } = {}) {
  const base = new URL(`${folder}`.replace(/\/?$/, "/"), import.meta.url);
  const text = new TextDecoder().decode(await read(new URL("manifest.json", base)));
  const manifest = JSON.parse(text);
  const { module, data } = manifest.wasm;
  const [code, bytes] = await Promise.all(
    [module, data].map((file) => read(new URL(file.file, base), file)),
  );
  const chunks = [];
  const write = (at, size) => {
    chunks.push(new Uint8Array(instance.exports.memory.buffer, at, size).slice());
  };
  const remainder = (x, y) => x % y;
  const { instance } = await WebAssembly.instantiate(code, { Math, odt: { remainder, write } });
  const memory = new Uint8Array(instance.exports.memory.buffer);
  let from = 0;
  for (const { address, size } of data.segments) {
    memory.set(bytes.subarray(from, from + size), address);
    from += size;
  }
  return new Model(manifest, instance.exports, chunks);
}

async function read(url, { size, integrity } = {}) {
  let bytes;
  try {
    bytes = await (url.protocol === "file:" ? readFile(url) : fetchFile(url, integrity));
  } catch (error) {
    throw fault("Error", `${url}: cannot be read: ${error.message}`);
  }
  if (size !== undefined && bytes.length !== size) {
    throw fault("Error", `${url}: must have ${size} bytes, but has ${bytes.length}.`);
  }
  return bytes;
}

async function readFile(url) {
  const { readFile } = await import("node:fs/promises");
  return readFile(url);
}

async function fetchFile(url, integrity) {
  const response = await fetch(url, { integrity });
  if (!response.ok) throw new Error(`status ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

function fault(name, message) {
  return Object.assign(new Error(message), { name });
}

class Model {
  #exports;
  #chunks;

  constructor(manifest, exports, chunks) {
    this.manifest = manifest;
    this.#exports = exports;
    this.#chunks = chunks;
    this.reset();
  }

  reset() {
    this.#call("init");
  }

  train({ inputs, targets }) {
    return this.#loss("train", inputs, targets);
  }

  evaluate({ inputs, targets }) {
    return this.#loss("evaluate", inputs, targets);
  }

  predict(inputs) {
    const { manifest } = this;
    const samples = this.#samples({ inputs });
    const sizes = manifest.outputs.map((a) => sampleSize(a) * samples);
    const room = this.#room([
      ...inputs.map((a) => a.byteLength),
      ...manifest.outputs.map((a, k) => sizes[k] * ARRAYS[a.type].BYTES_PER_ELEMENT),
    ]);
    this.#write(inputs, room);
    this.#call("predict", ...room, samples);
    const at = room.slice(inputs.length);
    return manifest.outputs.map((a, k) => this.#read(ARRAYS[a.type], at[k], sizes[k]));
  }

  getWeights() {
    const { weights } = this.manifest;
    const room = this.#room(weights.map(byteSize), 1);
    this.#call("get_weights", room[0]);
    return weights.map((a, k) => {
      const bytes = this.#read(Uint8Array, room[k], byteSize(a));
      return new ARRAYS[a.type](bytes.buffer);
    });
  }

  setWeights(arrays) {
    const { weights } = this.manifest;
    checkCount("weights", arrays, weights);
    weights.forEach((a, k) => {
      checkArray(`weights[${k}]`, arrays[k], a);
      checkLength(`weights[${k}]`, arrays[k], size(a.shape));
    });
    const room = this.#room(weights.map(byteSize), 1);
    this.#write(arrays, room);
    this.#call("set_weights", room[0]);
  }

  setLearningRate(rate) {
    if (typeof rate !== "number") throw new TypeError("The learning rate must be a number.");
    this.#call("set_learning_rate", rate);
  }

  setSeed(seed) {
    if (!Number.isSafeInteger(seed) || seed < 0) {
      throw new TypeError("The seed must be a whole number, 0 or more.");
    }
    const { set_seed: set } = this.#exports;
    if (!set) throw fault("Error", "The program draws no random numbers.");
    set(seed);
  }

  save() {
    const bytes = this.#exports.state_size();
    const [at] = this.#room([bytes]);
    this.#call("save", at);
    return this.#read(Uint8Array, at, bytes);
  }

  load(state) {
    const bytes = this.#exports.state_size();
    if (!(state instanceof Uint8Array) || state.length !== bytes) throw fault(...FAULTS[2]);
    const room = this.#room([bytes]);
    this.#write([state], room);
    this.#call("load", room[0]);
  }

  exportModel() {
    const { export_model: write } = this.#exports;
    if (!write) throw fault("Error", "The program cannot export: it has no model file.");
    this.#chunks.length = 0; // of an export that failed
    write();
    const bytes = new Uint8Array(this.#chunks.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of this.#chunks.splice(0)) {
      bytes.set(part, at);
      at += part.length;
    }
    return bytes;
  }

  #loss(name, inputs, targets) {
    const samples = this.#samples({ inputs, targets });
    const arrays = [...inputs, ...targets];
    const room = this.#room([...arrays.map((a) => a.byteLength), 4]);
    this.#write(arrays, room);
    this.#call(name, ...room.slice(0, -1), samples, room.at(-1));
    return this.#read(Float32Array, room.at(-1), 1)[0];
  }

  /* Calls a function of the program, and throws if it fails. */
  #call(name, ...args) {
    const status = this.#exports[`${this.manifest.name}_${name}`](...args);
    if (status) throw fault(...(FAULTS[status] ?? ["Error", `${name} returned ${status}.`]));
  }

  /* Returns the number of samples in a batch, after checks of all its arrays. */
  #samples(batch) {
    let samples;
    for (const [kind, arrays] of Object.entries(batch)) {
      const infos = this.manifest[kind];
      checkCount(kind, arrays, infos);
      infos.forEach((a, k) => {
        const name = `${kind}[${k}]`;
        checkArray(name, arrays[k], a);
        samples ??= arrays[k].length / sampleSize(a);
        if (!Number.isInteger(samples) || samples < 1 || samples > this.manifest.batch_size) {
          throw new RangeError(
            `${name} must have 1 to ${this.manifest.batch_size} samples of ${sampleSize(a)} ` +
              `values, but has ${arrays[k].length} values.`,
          );
        }
        checkLength(name, arrays[k], samples * sampleSize(a));
      });
    }
    return samples;
  }

  /* Returns addresses of memory for arrays of some sizes, beyond that of the program. The next
     call returns the same memory. */
  #room(sizes, alignment = ALIGNMENT) {
    const { memory, __heap_base: heap } = this.#exports;
    let end = Math.ceil(heap.value / ALIGNMENT) * ALIGNMENT;
    const room = sizes.map((bytes) => {
      const at = end;
      end = Math.ceil((at + bytes) / alignment) * alignment;
      return at;
    });
    const pages = Math.ceil((end - memory.buffer.byteLength) / PAGE);
    if (pages > 0) memory.grow(pages);
    return room;
  }

  #write(arrays, room) {
    const memory = new Uint8Array(this.#exports.memory.buffer);
    arrays.forEach((a, k) => {
      memory.set(new Uint8Array(a.buffer, a.byteOffset, a.byteLength), room[k]);
    });
  }

  #read(type, at, length) {
    return new type(this.#exports.memory.buffer, at, length).slice();
  }
}

function size(shape) {
  return shape.reduce((product, length) => product * length, 1);
}

function sampleSize(a) {
  return size(a.shape.slice(1));
}

function byteSize(a) {
  return size(a.shape) * ARRAYS[a.type].BYTES_PER_ELEMENT;
}

function checkCount(kind, arrays, infos) {
  if (!Array.isArray(arrays) || arrays.length !== infos.length) {
    throw new TypeError(`${kind} must be an array of ${infos.length} typed arrays.`);
  }
}

function checkArray(name, array, { type }) {
  if (!(array instanceof ARRAYS[type])) {
    throw new TypeError(`${name} must be a ${ARRAYS[type].name}.`);
  }
}

function checkLength(name, array, length) {
  if (array.length !== length) {
    throw new RangeError(`${name} must have ${length} values, but has ${array.length}.`);
  }
}

/* Opens the model in a worker; the methods of the result return promises. */
export async function openWorker({ folder, worker } = {}) {
  worker ??= new Worker(new URL(import.meta.url), { type: "module" });
  const waiting = new Map();
  let calls = 0;
  let ended;
  const end = (error) => {
    ended = error;
    worker.terminate();
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  };
  worker.onmessage = ({ data: { id, result, error } }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error) reject(fault(error.name, error.message));
    else resolve(result);
  };
  worker.onerror = (event) => end(fault("Error", event.message || "The worker cannot start."));
  const call = (method, ...args) =>
    new Promise((resolve, reject) => {
      if (ended) throw ended;
      calls += 1;
      waiting.set(calls, { resolve, reject });
      worker.postMessage({ id: calls, method, args });
    });
  try {
    const manifest = await call("open", folder === undefined ? {} : { folder: `${folder}` });
    const methods = METHODS.map((name) => [name, (...args) => call(name, ...args)]);
    const terminate = () => end(fault("Error", "The worker was terminated."));
    return { manifest, ...Object.fromEntries(methods), terminate };
  } catch (error) {
    end(error);
    throw error;
  }
}

/* Answers messages { id, method, args } with { id, result } or { id, error }, in order. */
function serve() {
  let model;
  let last = Promise.resolve();
  const run = async (method, args = []) => {
    if (method === "open") {
      model = await open(...args);
      return model.manifest;
    }
    if (!model || !METHODS.includes(method)) throw fault("Error", `${method}: no such method.`);
    return model[method](...args);
  };
  const answer = async ({ id, method, args }) => {
    try {
      const result = await run(method, args);
      self.postMessage({ id, result }, buffers(result));
    } catch ({ name, message }) {
      self.postMessage({ id, error: { name, message } });
    }
  };
  self.onmessage = ({ data }) => {
    last = last.then(() => answer(data));
  };
}

function buffers(result) {
  return [result].flat().flatMap((a) => (ArrayBuffer.isView(a) ? [a.buffer] : []));
}

// Whether this file is what a worker runs, and not a module of another worker.
if (globalThis.WorkerGlobalScope && self.location.href === import.meta.url) serve();
