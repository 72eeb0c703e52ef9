// Charts as SVG, in pixels of the screen, so that text keeps its size at any width.

const SVG = "http://www.w3.org/2000/svg";
let charts = 0;

function element(name, attributes = {}, ...children) {
  return furnish(document.createElement(name), attributes, children);
}

function shape(name, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, name), attributes, children);
}

function furnish(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const formatEss = (value) => fixed(value, 1);
const finite = (value) => value !== null && value !== undefined && Number.isFinite(value);

function text(value) {
  if (!finite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2).replace("-", "−");
  return (size >= 1000 ? whole : short).format(value).replace("-", "−");
}

// Decimals that an error leaves: two significant digits of it.
const digitsFor = (error) => Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(error))));

function fixed(value, digits) {
  if (!finite(value)) return "–";
  if (Math.abs(value) >= 1e9) return text(value);
  const format = new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return format.format(value).replace("-", "−");
}

// A value to the digits that its error leaves, such as 812.4 ± 3.1.
function withError(value, error) {
  if (!finite(value) || !finite(error)) return text(value);
  if (error <= 0) return `${text(value)} ± 0`;
  return `${fixed(value, digitsFor(error))} ± ${fixed(error, digitsFor(error))}`;
}

// A value with its interval, such as 812 [790, 830].
function withInterval(value, [low, high]) {
  if (!(finite(low) && finite(high) && high > low)) return `${text(value)} [${text(low)}, ${text(high)}]`;
  const digits = digitsFor((high - low) / 2);
  return `${fixed(value, digits)} [${fixed(low, digits)}, ${fixed(high, digits)}]`;
}

function ticks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

// Ticks as text: with as many decimals as their step has where four digits would make two of them look alike.
function tickTexts(values) {
  const brief = values.map(text);
  if (new Set(brief).size === values.length) return brief;
  const decimals = Math.max(0, -Math.floor(Math.log10(values[1] - values[0]) + 1e-9));
  return values.map((value) => fixed(value, Math.min(decimals, 15)));
}

function domain(values, pad = 0.05) {
  const known = values.filter(finite);
  if (!known.length) return [0, 1];
  let low = known.reduce((a, b) => Math.min(a, b)), high = known.reduce((a, b) => Math.max(a, b));
  if (low === high) { const room = Math.abs(low) || 1; low -= room / 2; high += room / 2; }
  const room = pad * (high - low);
  return [low - room, high + room];
}

// An empty chart with axes; `label` is what a screen reader says about it.
function chart(host, { x, y, xLabel, yLabel, label, height = 260, left = null }) {
  const width = Math.max(240, Math.floor(host.clientWidth));
  const yAt = ticks(y[0], y[1], Math.max(2, height / 55));
  const yText = tickTexts(yAt);
  left = left || 14 + 7.2 * Math.max(3, ...yText.map((said) => said.length));
  const xAt = ticks(x[0], x[1], Math.max(4, (width - left) / 95));
  const xText = tickTexts(xAt);
  const right = 12, top = 26, bottom = 46;
  const X = (v) => left + (width - left - right) * (v - x[0]) / (x[1] - x[0]);
  const Y = (v) => height - bottom - (height - bottom - top) * (v - y[0]) / (y[1] - y[0]);
  const clip = `clip${charts += 1}`;
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  svg.append(shape("clipPath", { id: clip }, shape("rect", { x: left, y: top - 6, width: width - left - right, height: height - bottom - top + 6 })));
  for (const [i, v] of yAt.entries()) {
    svg.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: Y(v), y2: Y(v) }));
    svg.append(shape("text", { class: "tick", x: left - 6, y: Y(v) + 4, "text-anchor": "end" }, yText[i]));
  }
  for (const [i, v] of xAt.entries()) {
    const anchor = X(v) > width - 24 ? "end" : "middle";
    svg.append(shape("line", { class: "grid", x1: X(v), x2: X(v), y1: top, y2: height - bottom }));
    svg.append(shape("text", { class: "tick", x: anchor === "end" ? width - 2 : X(v), y: height - bottom + 17, "text-anchor": anchor }, xText[i]));
  }
  svg.append(shape("text", { class: "name", x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, xLabel));
  svg.append(shape("text", { class: "name", x: 4, y: 14 }, yLabel));
  const plot = shape("g", { "clip-path": `url(#${clip})` });
  svg.append(plot);
  host.replaceChildren(svg);
  return { host, svg, plot, X, Y, width, height, x, y, left, right, top, bottom };
}

function path(c, xs, ys) {
  let d = "", pen = "M";
  xs.forEach((x, i) => {
    if (!finite(ys[i])) { pen = "M"; return; }
    d += `${pen}${c.X(x).toFixed(2)},${c.Y(ys[i]).toFixed(2)}`;
    pen = "L";
  });
  return d;
}

// Holds its value until the next one is known.
function steps(xs, ys) {
  const at = [], values = [];
  xs.forEach((x, i) => {
    if (i > 0) { at.push(x); values.push(ys[i - 1]); }
    at.push(x); values.push(ys[i]);
  });
  return [at, values];
}

function line(c, xs, ys, kind, id = null) {
  const node = shape("path", { class: `line ${kind}`, d: path(c, xs, ys), id });
  c.plot.append(node);
  return node;
}

function band(c, xs, low, high, kind) {
  const back = path(c, [...xs].reverse(), [...high].reverse());
  c.plot.append(shape("path", { class: `band ${kind}`, d: `${path(c, xs, low)}${back.replace("M", "L")}Z` }));
}

const SYMBOLS = {
  design: (s) => `M${-s},${-s}H${s}V${s}H${-s}Z`,
  explore: (s) => `M${-s},0A${s},${s} 0 1 1 ${s},0A${s},${s} 0 1 1 ${-s},0Z`,
  random: (s) => `M0,${-1.25 * s}L${1.15 * s},${0.9 * s}H${-1.15 * s}Z`,
  added: (s) => `M${-1.3 * s},${-0.45 * s}H${-0.45 * s}V${-1.3 * s}H${0.45 * s}V${-0.45 * s}H${1.3 * s}V${0.45 * s}H${0.45 * s}V${1.3 * s}H${-0.45 * s}V${0.45 * s}H${-1.3 * s}Z`,
  check: (s) => `M0,${-1.4 * s}L${1.4 * s},0L0,${1.4 * s}L${-1.4 * s},0Z`,
  critic: (s) => `M0,${1.25 * s}L${1.15 * s},${-0.9 * s}H${-1.15 * s}Z`,
  noisy: (s) => `M${-s},${-s}L0,${-0.35 * s}L${s},${-s}L${0.35 * s},0L${s},${s}L0,${0.35 * s}L${-s},${s}L${-0.35 * s},0Z`,
};

function choosePurpose(purpose) {
  return purpose in SYMBOLS ? purpose : "explore";
}

function symbol(c, x, y, purpose, { size = 3.4, opacity = 1 } = {}) {
  const node = shape("path", { class: `dot ${choosePurpose(purpose)}`, d: SYMBOLS[choosePurpose(purpose)](size),
    transform: `translate(${c.X(x).toFixed(2)},${c.Y(y).toFixed(2)})`, "fill-opacity": opacity.toFixed(3), "stroke-opacity": Math.max(opacity, 0.35).toFixed(3) });
  c.plot.append(node);
}

function bar(c, x, value, purpose, breadth) {
  const at = c.Y(Math.max(0, c.y[0]));
  const up = Math.max(0.5, at - c.Y(value));
  c.plot.append(shape("rect", { class: `bar ${choosePurpose(purpose)}`, x: c.X(x) - breadth / 2, y: at - up, width: breadth, height: up }));
}

function legend(host, entries) {
  host.replaceChildren(...entries.map(({ kind, purpose, label }) => {
    return element("span", {}, sampleOf(kind, purpose), label);
  }));
}

function sampleOf(kind, purpose = null) {
  const picture = shape("svg", { width: 26, height: 14, "aria-hidden": "true" });
  if (purpose) picture.append(shape("path", { class: `dot ${purpose}`, d: SYMBOLS[purpose](4), transform: "translate(13,7)" }));
  else if (kind.startsWith("band")) picture.append(shape("rect", { class: kind, x: 1, y: 1, width: 24, height: 12 }));
  else picture.append(shape("path", { class: `line ${kind}`, d: "M1,7H25" }));
  return picture;
}

// The nearest point under the pointer says what it is; with the keyboard, arrows go from point to point.
function addTooltips(c, points) {
  if (!points.length) return;
  const ordered = [...points].sort((a, b) => a.x - b.x);
  const ring = shape("circle", { class: "ring", r: 7, visibility: "hidden" });
  c.svg.append(ring);
  c.svg.setAttribute("tabindex", "0");
  let current = -1;
  const show = (i) => {
    current = i;
    const { x, y, say } = ordered[i];
    if (c.onPoint) c.onPoint(ordered[i]);
    ring.setAttribute("cx", c.X(x)); ring.setAttribute("cy", c.Y(Math.min(Math.max(y, c.y[0]), c.y[1])));
    ring.setAttribute("visibility", "visible");
    const frame = c.svg.getBoundingClientRect();
    tip(say, frame.left + c.X(x), frame.top + c.Y(Math.min(Math.max(y, c.y[0]), c.y[1])));
  };
  const hide = () => { current = -1; if (c.onPoint) c.onPoint(null); ring.setAttribute("visibility", "hidden"); tip(null); };
  c.svg.addEventListener("pointermove", (event) => {
    const frame = c.svg.getBoundingClientRect();
    const px = event.clientX - frame.left, py = event.clientY - frame.top;
    let best = -1, least = 40 * 40;
    ordered.forEach((p, i) => {
      const far = (c.X(p.x) - px) ** 2 + (p.wide ? 0 : (c.Y(p.y) - py) ** 2);
      if (far < least) { least = far; best = i; }
    });
    if (best >= 0) show(best); else hide();
  });
  c.svg.addEventListener("pointerleave", hide);
  c.svg.addEventListener("blur", hide);
  c.svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    show(Math.min(ordered.length - 1, Math.max(0, current + step)));
  });
}

function tip(say, x = 0, y = 0) {
  const node = document.getElementById("tip");
  node.hidden = say === null;
  if (say === null) return;
  node.textContent = say;
  const breadth = node.offsetWidth, height = node.offsetHeight;
  const left = Math.min(Math.max(6, x - breadth / 2), document.documentElement.clientWidth - breadth - 6);
  const above = y - height - 12;
  node.style.left = `${left}px`;
  node.style.top = `${above > 4 ? above : y + 14}px`;
}
