// The loss curve, as SVG: training loss after each step, loss on held-back samples after each epoch.

const MARGIN = { top: 12, right: 12, bottom: 24, left: 40 };
const POINTS = 300; // of a line
const SMOOTHING = 0.15; // weight of a new step in the mean that is drawn

export class LossChart {
  /** @param {SVGSVGElement} svg */
  constructor(svg) {
    this.svg = svg;
    this.waiting = false;
    this.reset(1);
    new ResizeObserver(() => this.draw()).observe(svg);
  }

  reset(epochs) {
    this.epochs = epochs;
    this.training = [];
    this.test = [];
    this.draw();
  }

  addStep(epoch, loss) {
    const last = this.training.at(-1)?.loss ?? loss;
    this.training.push({ epoch, loss: last + SMOOTHING * (loss - last) });
    this.draw();
  }

  addTest(epoch, loss) {
    this.test.push({ epoch, loss });
    this.draw();
  }

  /** Draws at the next frame, however often it is called before. */
  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.svg.replaceChildren(...this.elements());
    });
  }

  elements() {
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (!width || !height) return [];
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const losses = [...this.training, ...this.test].map((p) => p.loss);
    const step = tick(losses.reduce((a, b) => Math.max(a, b), 1));
    const top = step * Math.ceil(losses.reduce((a, b) => Math.max(a, b), step) / step);
    const x = (epoch) =>
      MARGIN.left + (epoch / this.epochs) * (width - MARGIN.left - MARGIN.right);
    const y = (loss) =>
      height - MARGIN.bottom - (loss / top) * (height - MARGIN.top - MARGIN.bottom);
    const elements = [];
    for (let value = 0; value <= top + step / 2; value += step) {
      const at = { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) };
      elements.push(element("line", { class: "grid", ...at }));
      const text = { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" };
      elements.push(element("text", text, value.toFixed(step < 1 ? 1 : 0)));
    }
    const between = Math.max(1, Math.ceil(this.epochs / 10));
    for (let epoch = between; epoch <= this.epochs; epoch += between) {
      const text = { x: x(epoch), y: height - 4, "text-anchor": "middle" };
      elements.push(element("text", text, epoch));
    }
    const line = (points) => points.map((p) => `${x(p.epoch).toFixed(1)},${y(p.loss).toFixed(1)}`);
    const points = thinned(this.training);
    elements.push(element("polyline", { class: "training-line", points: line(points).join(" ") }));
    const test = line(this.test).join(" ");
    elements.push(element("polyline", { class: "test-line", points: test }));
    if (this.test.length <= 60) {
      for (const p of this.test) {
        elements.push(element("circle", { class: "test-dot", cx: x(p.epoch), cy: y(p.loss), r: 3 }));
      }
    }
    return elements;
  }
}

/** The distance of grid lines, so that there are at most five. */
function tick(most) {
  return [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100].find((step) => most / step <= 5) ?? most;
}

function thinned(points) {
  const every = Math.ceil(points.length / POINTS);
  return points.filter((_, k) => k % every === 0 || k === points.length - 1);
}

function element(name, attributes, text = "") {
  const result = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) result.setAttribute(key, value);
  result.textContent = text;
  return result;
}
