// The worker's methods as functions that return promises.

export class Engine {
  /** @param {(event: object) => void} onEvent - called with what the worker reports on the way */
  constructor(onEvent) {
    this.worker = new Worker("worker.js", { type: "module" });
    this.waiting = new Map();
    this.worker.onmessage = ({ data }) => {
      if (data.event) return onEvent(data);
      const { resolve, reject } = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      if (data.error === undefined) resolve(data.result);
      else reject(new Error(data.error));
    };
    this.worker.onerror = (event) => {
      const error = new Error(event.message ?? "the worker does not run");
      for (const { reject } of this.waiting.values()) reject(error);
      this.waiting.clear();
    };
  }

  /** Calls a method of worker.js. */
  call(method, argument, transfer = []) {
    return new Promise((resolve, reject) => {
      const id = Engine.calls++;
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, method, argument }, transfer);
    });
  }

  close() {
    this.worker.terminate();
  }
}

Engine.calls = 0;
