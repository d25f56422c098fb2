// Helpers that stand before every view's own text in one module: no imports, no build step.
// Strings from Python are put on the page as text, never as HTML.

// ---------------------------------------------------------------- data

const ARRAY_OF = { half: Uint16Array, single: Float32Array, bool: Uint8Array };

// What Python packed, by name: { array, shape, scale }. Text is base64 of a deflated block (the
// stored output); anything else is the bytes themselves (the widget's buffer, at any offset).
async function unpack(model) {
  const data = model.get("data");
  const blocks = model.get("state").blocks;
  let bytes;
  if (typeof data === "string") {
    const packed = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    bytes = data ? new Uint8Array(await new Response(stream).arrayBuffer()) : packed;
  } else {
    bytes = new Uint8Array(data.buffer ?? data, data.byteOffset ?? 0, data.byteLength);
    if (bytes.byteOffset % 4) bytes = bytes.slice(); // floats must start at a multiple of their size
  }
  const arrays = {};
  for (const [name, { kind, shape, scale, offset }] of Object.entries(blocks)) {
    const size = shape.reduce((product, axis) => product * axis, 1);
    const start = bytes.byteOffset + offset;
    arrays[name] = { kind, array: new ARRAY_OF[kind](bytes.buffer, start, size), shape, scale };
  }
  return arrays;
}

// Every half float there is, as a number: decoding is one look-up.
const HALF = (() => {
  const table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    table[bits] = sign * (exponent === 31 ? (fraction ? NaN : Infinity)
      : exponent ? 2 ** (exponent - 25) * (1024 + fraction) : 2 ** -24 * fraction);
  }
  return table;
})();

// `size` numbers of a block from `start`, as floats.
function decode({ kind, array, scale }, start = 0, size = array.length) {
  const numbers = new Float32Array(size);
  if (kind === "half") {
    for (let i = 0; i < size; i++) numbers[i] = HALF[array[start + i]] * scale;
  } else {
    for (let i = 0; i < size; i++) numbers[i] = array[start + i];
  }
  return numbers;
}

// ---------------------------------------------------------------- words and numbers

// A token with what cannot be seen made visible; the same as `token_text` in figures.py.
function tokenText(token) {
  const visible = { "\n": "⏎", "\t": "⇥", "\r": "␍" };
  const text = [...token].map((letter) => visible[letter]
    ?? (/[\p{C}\p{Z}]/u.test(letter) && letter !== " " ? "␚" : letter)).join("");
  return text.trim() ? text : "␣".repeat(text.length) || "∅";
}

// Three significant digits: 0.623, 0.0123, 12.3, 4.56e-7, −∞.
function digits(number) {
  if (number === 0) return "0";
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "not a number" : number > 0 ? "∞" : "−∞";
  const size = Math.abs(number);
  const text = size >= 1000 ? (size < 1e6 ? Math.round(size).toString() : size.toExponential(2))
    : size < 1e-4 ? size.toExponential(2) : size.toPrecision(3);
  return (number < 0 ? "−" : "") + text;
}

// A whole number with a true minus.
const signed = (number) => (number < 0 ? `−${-number}` : String(number));

const clamp = (number, low, high) => Math.min(high, Math.max(low, number));

// 43.2%, 0; a small share is never called nothing.
function share(p) {
  if (p === 0) return "0";
  return p < 0.001 ? "< 0.1%" : `${(100 * p).toFixed(1)}%`;
}

function percent(share) {
  const points = 100 * share;
  if (points > 0 && points < 1) return "under 1%";
  return `${Math.round(points)}%`;
}

// ---------------------------------------------------------------- elements

// element("p", { className: "note" }, "text", child): strings become text nodes.
function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  setAll(node, properties);
  node.append(...children);
  return node;
}

// SVG's namespace, taken from the parser.
const SVG_NAMESPACE = (() => {
  const template = document.createElement("template");
  template.innerHTML = "<svg></svg>";
  return template.content.firstChild.namespaceURI;
})();

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG_NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Properties by name; aria-…, data-… and role as attributes; on… as listeners; style as an object.
function setAll(node, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (name === "style") for (const [key, rule] of Object.entries(value)) node.style.setProperty(key, rule);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2).toLowerCase(), value);
    else if (/^(aria-|data-|role$)/.test(name)) node.setAttribute(name, value);
    else node[name] = value;
  }
}

function button(text, onClick, properties = {}) {
  return element("button", { type: "button", onClick, ...properties }, text);
}

// A labelled native select: options are [value, text]; `onChange(value)`.
function select(label, options, value, onChange) {
  const control = element("select", { "aria-label": label, onChange: () => onChange(control.value) },
    ...options.map(([key, text]) => element("option", { value: key }, text)));
  control.value = value;
  return element("label", { className: "field" }, element("span", {}, label), control); // .control is the select
}

// A labelled native slider with its value in words; `onInput(number)`, `text(number)`.
function slider(label, { min, max, step = 1, value, text = digits, onInput }) {
  const out = element("output", {}, text(value));
  const control = element("input", { type: "range", "aria-label": label, min, max, step, value });
  const show = () => {
    out.textContent = text(control.valueAsNumber);
    control.setAttribute("aria-valuetext", out.textContent);
  };
  control.addEventListener("input", () => { show(); onInput(control.valueAsNumber); });
  show();
  const node = element("label", { className: "field" }, element("span", {}, label), control, out);
  const set = (number) => { control.value = number; show(); };
  return Object.assign(node, { set }); // a label's own .control is the slider
}

// ---------------------------------------------------------------- the frame of a view

// JupyterLab's theme where there is one, VS Code's, else the reader's preference.
const THEME = `
:host { display: block; position: relative; container-type: inline-size;
  --paper: var(--jp-layout-color1, var(--vscode-editor-background, #ffffff));
  --raised: var(--jp-layout-color2, var(--vscode-editorWidget-background, #f3f4f6));
  --line: var(--jp-border-color2, var(--vscode-panel-border, #d7dbe0));
  --ink: var(--jp-content-font-color1, var(--vscode-foreground, #1c2128));
  --faint: var(--jp-content-font-color2, var(--vscode-descriptionForeground, #59616c));
  --accent: var(--jp-brand-color1, var(--vscode-focusBorder, #0b6bcb));
  --warm: #d55e00; --good: #00795a;
  --font: var(--jp-ui-font-family, system-ui, sans-serif);
  --mono: var(--jp-code-font-family, ui-monospace, monospace);
}
@media (prefers-color-scheme: dark) { :host {
  --paper: var(--jp-layout-color1, var(--vscode-editor-background, #14181d));
  --raised: var(--jp-layout-color2, var(--vscode-editorWidget-background, #20262d));
  --line: var(--jp-border-color2, var(--vscode-panel-border, #39414b));
  --ink: var(--jp-content-font-color1, var(--vscode-foreground, #e8ebef));
  --faint: var(--jp-content-font-color2, var(--vscode-descriptionForeground, #a3acb8));
  --accent: var(--jp-brand-color1, var(--vscode-focusBorder, #62aef5));
} }
* { box-sizing: border-box; }
.view { font: 13px/1.45 var(--font); color: var(--ink); background: var(--paper);
  border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; margin: 2px;
  max-width: 100%; }
.view.dark { --warm: #ff8f3f; --good: #2fc496; color-scheme: dark; }
.view:not(.dark) { color-scheme: light; }
.title { font-weight: 650; font-size: 15px; margin: 0; text-wrap: balance; }
.faint { color: var(--faint); }
.number { font-variant-numeric: tabular-nums; }
.token { font-family: var(--mono); unicode-bidi: isolate; white-space: pre; }
.row { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center; }
.field { display: inline-flex; gap: 7px; align-items: center; color: var(--faint); }
.field output { color: var(--ink); min-width: 4ch; font-variant-numeric: tabular-nums; }
button, select { font: inherit; color: var(--ink); background: var(--raised);
  border: 1px solid var(--line); border-radius: 6px; padding: 3px 10px; cursor: pointer; max-width: 100%; }
button:hover, select:hover { border-color: var(--accent); }
button[aria-pressed="true"] { background: var(--accent); border-color: var(--accent); color: var(--paper); }
button:disabled { opacity: .5; cursor: default; }
input[type="range"] { accent-color: var(--accent); cursor: pointer; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.spoken { position: absolute; top: 0; left: 0; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.foot { margin-top: 12px; font-size: 12px; gap: 8px; }
.data { margin-top: 8px; max-height: 460px; overflow: auto; border: 1px solid var(--line); border-radius: 8px; padding: 2px 12px 8px; }
.data[hidden] { display: none; }
.data table { border-collapse: collapse; width: auto; max-width: none; margin: 10px 0 14px; font-size: 12px; }
.data caption { text-align: start; font-weight: 650; padding: 2px 0 4px; }
.data caption span { display: block; width: max-content; max-width: calc(100cqi - 70px); }
.data th, .data td { text-align: end; padding: 2px 14px 2px 0; height: auto; min-width: 0; max-width: none; width: auto;
  white-space: pre; color: var(--ink); font-size: 12px; font-variant-numeric: tabular-nums; cursor: auto; }
.data thead th { color: var(--faint); font-weight: 400; border-bottom: 1px solid var(--line); }
.data th:first-child { text-align: start; }
.data tbody th { font-weight: 600; }
@media (prefers-reduced-motion: no-preference) { button, select { transition: border-color .12s, background .12s; } }
`;

// The frame of a view in a shadow root of its own: theme, keyboard guard and a live region.
// Gives { root, say, colors, onTheme }: put children into `root`; `say(words)` speaks them;
// `colors()` reads the theme for a canvas; `onTheme(draw)` draws again when the theme changes.
function frame(el, { css = "", label }) {
  const shadow = el.shadowRoot ?? el.attachShadow({ mode: "open" });
  const root = element("div", { className: "view", role: "group", "aria-label": label });
  const live = element("div", { className: "spoken", role: "status", "aria-live": "polite" });
  shadow.replaceChildren(element("style", {}, THEME + css), root, live);
  guardKeys(root);

  let timer;
  const say = (words, wait = 0) => {
    clearTimeout(timer);
    timer = setTimeout(() => { if (live.textContent !== words) live.textContent = words; }, wait);
  };

  const colors = () => {
    const style = getComputedStyle(root);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    const found = Object.fromEntries(
      ["paper", "raised", "line", "ink", "faint", "accent", "warm", "good", "font", "mono"].map((name) => [name, read(name)]));
    return { ...found, dark: isDark(style.backgroundColor) };
  };
  const settle = () => root.classList.toggle("dark", isDark(getComputedStyle(root).backgroundColor));
  new ResizeObserver(settle).observe(root); // tells when it comes onto the page, too
  let redraw = () => {};
  watchTheme(root, () => { settle(); redraw(); });
  const onTheme = (draw) => { redraw = draw; };
  return { root, say, colors, onTheme };
}

// In command mode JupyterLab takes arrows and letters from the controls of an output: unmodified
// keys end here. Escape goes on, so that the notebook stays reachable.
function guardKeys(root) {
  for (const kind of ["keydown", "keypress", "keyup"]) {
    root.addEventListener(kind, (event) => {
      const modified = event.ctrlKey || event.metaKey || event.altKey;
      const runsCell = event.key === "Enter" && event.shiftKey;
      if (!modified && !runsCell && event.key !== "Escape") event.stopPropagation();
    });
  }
}

function isDark(color) {
  const [r, g, b, a = 1] = (color.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
  return a > 0 && 0.299 * r + 0.587 * g + 0.114 * b < 128;
}

// Calls `draw` when JupyterLab's theme or the reader's preference changes. Holds the view weakly:
// a view that was re-run must not stay in memory.
function watchTheme(root, draw) {
  root.themeChanged = draw;
  const held = new WeakRef(root);
  const preference = matchMedia("(prefers-color-scheme: dark)");
  const tell = () => {
    const view = held.deref();
    if (view) requestAnimationFrame(() => view.themeChanged());
    else {
      observer.disconnect();
      preference.removeEventListener("change", tell);
    }
  };
  const observer = new MutationObserver(tell);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  preference.addEventListener("change", tell);
}

// ---------------------------------------------------------------- the view as a table

// Every view's other form, for those who cannot see it: a button at its end, and the key T.
// `make()` gives one table or a list of them: { caption, columns, rows }, where the first column
// names the rows. Numbers are written to three digits, strings as they are. Gives what the view
// calls after each of its changes: an open table follows, a closed one costs nothing.
function asTable(root, make) {
  const box = element("div", { className: "data", id: "data", hidden: true, tabIndex: 0, role: "region", "aria-label": "the numbers as a table" });
  const toggle = button("Show as table", () => open(box.hidden), { "aria-expanded": "false", "aria-controls": "data" });
  root.append(element("div", { className: "row foot" }, toggle, element("span", { className: "faint" }, "or press T")), box);

  const inCell = (x) => (typeof x === "number" ? digits(x) : x);
  let written = "";
  function write() {
    if (box.hidden) return;
    const tables = [make()].flat();
    const words = JSON.stringify(tables, (_, x) => (typeof x === "number" ? digits(x) : x));
    if (words === written) return; // who is reading it keeps their place
    written = words;
    box.replaceChildren(...tables.map(({ caption, columns, rows }) => element("table", {},
      element("caption", {}, element("span", {}, caption)),
      element("thead", {}, element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows.map(([name, ...cells]) => element("tr", {}, element("th", { scope: "row" }, inCell(name)),
        ...cells.map((x) => element("td", {}, inCell(x)))))))));
  }

  function open(wanted) {
    box.hidden = !wanted;
    toggle.setAttribute("aria-expanded", String(wanted));
    write();
  }
  let from; // where the key was pressed: there it goes back to
  root.addEventListener("keydown", (event) => {
    const types = /^(SELECT|TEXTAREA)$/.test(event.target.tagName) || (event.target.tagName === "INPUT" && event.target.type !== "range");
    if (event.key.toLowerCase() !== "t" || event.ctrlKey || event.metaKey || event.altKey || types) return;
    event.preventDefault();
    const active = root.getRootNode().activeElement;
    open(box.hidden);
    if (!box.hidden) { from = active; box.focus(); } else if (box.contains(active)) (from ?? toggle).focus();
  });
  return oncePerFrame(write);
}

// ---------------------------------------------------------------- colour

const VIRIDIS = "440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 fde725";
const CIVIDIS = "00224e 002e6a 1a386f 32436d 434e6c 535a6d 61656f 6f7073 7d7c78 8c8878 9b9476 aba072 bcae6c cdbb63 dec958 f0d846 fee838";
// blue: less, orange: more; the same stops as in figures.py
const DIVERGING = "00385c 0072b2 7ab5d8 f4f4f2 f0a878 d55e00 6e2c00";
const MASKED = "d9dce1";
const OKABE_ITO = { orange: "#e69f00", sky: "#56b4e9", green: "#009e73", yellow: "#f0e442", blue: "#0072b2", vermilion: "#d55e00", purple: "#cc79a7" };

// The [r, g, b] of a share from 0 to 1 along a scale's stops.
function colorAt(scale, share) {
  const stops = scale.split(" ");
  const place = Math.min(1, Math.max(0, share || 0)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(place));
  return [0, 2, 4].map((i) => {
    const [a, b] = [stops[low], stops[low + 1]].map((stop) => parseInt(stop.slice(i, i + 2), 16));
    return Math.round(a + (b - a) * (place - low));
  });
}

const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

// Dark ink or white, whichever reads better on a colour.
function inkOn([r, g, b]) {
  const linear = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return light > 0.179 ? "#10151b" : "#ffffff";
}

// 1024 colours of a scale as pixels for an ImageData's Uint32Array; made once for each scale.
const tables = new Map();
function colorTable(scale) {
  if (!tables.has(scale)) {
    const table = new Uint32Array(1024);
    const bytes = new Uint8ClampedArray(table.buffer); // bytes, so that byte order is no matter
    for (let i = 0; i < 1024; i++) bytes.set([...colorAt(scale, i / 1023), 255], 4 * i);
    tables.set(scale, table);
  }
  return tables.get(scale);
}

// ---------------------------------------------------------------- canvas

// Size a canvas for the screen's pixels and give its context in CSS pixels.
function fitCanvas(canvas, width, height, ratio = window.devicePixelRatio || 1) {
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// Hand a canvas to the reader as a PNG file.
function saveCanvas(canvas, name) {
  canvas.toBlob((blob) => {
    const url = URL.createObjectURL(blob);
    element("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
}

// A file's name from a title.
const fileName = (title, ending) => `${title.normalize("NFKD").replace(/[^\w]+/g, "-").replace(/^-|-$/g, "").toLowerCase() || "view"}.${ending}`;

// Calls `draw` once in a frame, however often it is asked.
function oncePerFrame(draw) {
  let waiting = 0;
  return () => { waiting ||= requestAnimationFrame(() => { waiting = 0; draw(); }); };
}
