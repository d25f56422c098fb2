// A tensor's way through a pre-norm block: what each step takes, makes, learns and costs. The same
// numbers as `block_steps` in block_shapes.py.

const CSS = `
.presets { margin: 10px 0 8px; gap: 8px; }
.sizes { display: grid; grid-template-columns: repeat(auto-fill, minmax(98px, 1fr)); gap: 8px 12px; }
.size { display: grid; gap: 1px; color: var(--faint); min-width: 0; }
.size input[type="range"] { width: 100%; margin: 3px 0 0; }
input[type="number"] { font: inherit; font-variant-numeric: tabular-nums; width: 100%; min-width: 0; color: var(--ink);
  background: var(--paper); border: 1px solid var(--line); border-radius: 6px; padding: 2px 7px; }
input[aria-invalid="true"] { border-color: var(--warm); outline-color: var(--warm); }
.wrong { margin: 10px 0 0; padding: 7px 12px; border: 1px solid var(--warm); border-radius: 8px; }
.wrong .row { margin-top: 5px; }
.body { display: grid; gap: 12px 18px; margin-top: 12px; align-items: start; }
.card { background: var(--raised); border-radius: 9px; padding: 10px 12px; min-width: 0; }
.head { display: flex; align-items: baseline; justify-content: space-between; gap: 8px; }
.head b { font-size: 15px; font-weight: 650; }
.head button { background: var(--paper); }
.head button[aria-disabled="true"] { opacity: .45; cursor: default; }
.code { display: block; font: 12px/1.5 var(--mono); background: var(--paper); border-radius: 6px; padding: 4px 8px; margin: 7px 0 9px; overflow-wrap: anywhere; }
.tensors { display: grid; grid-template-columns: auto 1fr; gap: 5px 9px; align-items: center; }
.tensors > span { font: 12px var(--mono); color: var(--faint); }
.tensors h4 { grid-column: 1 / -1; margin: 0; font-size: 11.5px; font-weight: 400; color: var(--faint); }
.shape { display: flex; flex-wrap: wrap; gap: 3px; align-items: center; }
.axis { background: var(--paper); border: 1px solid var(--line); border-radius: 6px; padding: 0 4px 1px; text-align: center;
  line-height: 1.25; font-variant-numeric: tabular-nums; font-weight: 600; }
.axis small { display: block; font-size: 10px; font-weight: 400; color: var(--faint); }
.axis.new { border-color: var(--warm); box-shadow: inset 0 0 0 1px var(--warm); }
dl { display: grid; gap: 2px; margin: 10px 0 8px; }
dl > div { display: grid; grid-template-columns: 6.2em 4.6em 1fr; gap: 6px; align-items: baseline; }
dt { color: var(--faint); }
dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
dd.by { font-weight: 400; color: var(--faint); font-size: 11px; line-height: 1.35; }
.card p { margin: 0; text-wrap: pretty; }
.way { min-width: 0; }
.way svg { width: 100%; height: auto; display: block; }
.way text { font: 13px var(--font); fill: var(--ink); font-variant-numeric: tabular-nums; }
.way text.small { font-size: 12px; fill: var(--faint); }
.way .part { fill: var(--tint); opacity: .1; }
.way text.part-name { fill: var(--tint); font-size: 12px; font-weight: 600; opacity: 1; }
.way .wire { fill: none; stroke: var(--faint); stroke-opacity: .38; stroke-width: 1.6; }
.way .wire.stream { stroke-width: 5; stroke-opacity: .28; }
.way .wire.done { stroke: var(--ink); stroke-opacity: .75; }
.way .wire.stream.done { stroke-opacity: 1; stroke: var(--faint); }
.way [role="option"] { cursor: pointer; outline: none; }
.way .hit { fill: transparent; }
.way [role="option"]:hover .hit { fill: var(--raised); }
.way .box { fill: var(--paper); stroke: var(--tint); stroke-width: 1.2; }
.way .bar { fill: var(--tint); opacity: .55; }
.way .bar.explicit { fill-opacity: .3; stroke: var(--tint); stroke-width: 1.2; stroke-dasharray: 4 2.5; opacity: .9; }
.way .plus { stroke: var(--ink); stroke-width: 1.6; }
.way [aria-selected="true"] .hit { fill: var(--raised); }
.way [aria-selected="true"] .box { stroke: var(--warm); stroke-width: 2.4; }
.way [aria-selected="true"] .bar { fill: var(--warm); stroke: var(--warm); opacity: 1; }
.way [aria-selected="true"] .bar.explicit { fill-opacity: .45; }
.way [aria-selected="true"] text { font-weight: 650; fill: var(--ink); }
.way [role="option"]:focus-visible .hit { stroke: var(--accent); stroke-width: 2; }
.stream-part { --tint: var(--faint); } .attention { --tint: var(--accent); } .feed-forward { --tint: var(--good); }
.totals { display: grid; gap: 10px 18px; margin-top: 14px; border-top: 1px solid var(--line); padding-top: 10px; }
.total { font-variant-numeric: tabular-nums; }
.split { display: flex; gap: 2px; height: 7px; margin: 3px 0 2px; }
.split i { background: var(--tint); border-radius: 2px; opacity: .75; }
.split i.explicit { opacity: .35; }
.key { font-size: 12px; margin: 4px 0 0; }
.share { white-space: nowrap; margin-inline-end: 5px; }
.dot { display: inline-block; width: 9px; height: 9px; border-radius: 2px; background: var(--tint); margin-inline-end: 4px; opacity: .75; }
@container (min-width: 650px) {
  .sizes { grid-template-columns: repeat(6, 1fr); }
  .body { grid-template-columns: minmax(0, 1fr) minmax(0, 316px); }
  .totals { grid-template-columns: repeat(3, minmax(0, 1fr)); }
}
@media (prefers-reduced-motion: no-preference) { .way .bar, .split i { transition: width .18s, fill .12s; } }
`;

const PRESETS = [
  ["Llama-7B (the lesson's)", { d_model: 4096, n_heads: 32, n_kv_heads: 32, d_ff: 11008, gated: true, bias: false }, { batch: 32, tokens: 2048 }],
  ["GPT-2 small", { d_model: 768, n_heads: 12, n_kv_heads: 12, d_ff: 3072, gated: false, bias: true }],
  ["GPT-3", { d_model: 12288, n_heads: 96, n_kv_heads: 96, d_ff: 49152, gated: false, bias: true }],
  ["Llama-3 8B", { d_model: 4096, n_heads: 32, n_kv_heads: 8, d_ff: 14336, gated: true, bias: false }],
  ["Phi-3-mini", { d_model: 3072, n_heads: 32, n_kv_heads: 32, d_ff: 8192, gated: true, bias: false }],
  ["SmolLM2-135M", { d_model: 576, n_heads: 9, n_kv_heads: 3, d_ff: 1536, gated: true, bias: false }],
];

// Greatest size (the same as in block_shapes.py), and the powers of two that the slider has.
const SIZES = {
  batch: [65536, 0, 10], tokens: [1048576, 0, 17], d_model: [65536, 5, 14],
  n_heads: [1024, 0, 7], n_kv_heads: [1024, 0, 7], d_ff: [1048576, 6, 16],
};

const product = (list) => list.reduce((a, b) => a * b, 1);
const total = (list) => list.reduce((a, b) => a + b, 0);
const times = (axes) => axes.map(([, size]) => size).join(" × ");

// Three digits and a prefix: 8.59 G; rounded before the prefix is chosen.
function amount(number) {
  if (number < 1000) return `${number} `;
  const rounded = Number(number.toPrecision(3));
  const power = Math.min(6, Math.floor(Math.log10(rounded) / 3 + 1e-9));
  const scaled = rounded / 1000 ** power;
  return `${scaled.toFixed(scaled < 10 ? 2 : scaled < 100 ? 1 : 0)} ${" kMGTPE"[power]}`;
}

function blockSteps({ batch, tokens, d_model, n_heads, n_kv_heads, d_ff, gated, bias, bytes_per_number }) {
  const d_head = d_model / n_heads, group = n_heads / n_kv_heads;
  const qkv = d_model + 2 * n_kv_heads * d_head;
  const tokenwise = (axis, size) => [["batch", batch], ["tokens", tokens], [axis, size]];
  const headwise = (name, heads) => [["batch", batch], [name, heads], ["tokens", tokens], ["d_head", d_head]];
  const stream = tokenwise("d_model", d_model), hidden = tokenwise("d_ff", d_ff);
  const q = headwise("n_heads", n_heads), kv = headwise("n_kv_heads", n_kv_heads);
  const square = [["batch", batch], ["n_heads", n_heads], ["tokens", tokens], ["tokens", tokens]];
  const steps = [];

  // takes and makes: [name, axes] of each tensor; the first one made is the step's.
  const step = (part, name, code, takes, makes, words, { parameters = [0], flops = [0], view, explicit } = {}) => steps.push({
    part, name, code, takes, makes, words, view, explicit, axes: makes[0][1],
    parameters: parameters[0], parametersBy: parameters[1], flops: flops[0], flopsBy: flops[1],
    bytes: view ? 0 : product(makes[0][1].map(([, size]) => size)) * bytes_per_number,
    bytesBy: view ? "a view of q + k + v: nothing new" : `${makes[0][1].map(([axis]) => (/ /.test(axis) ? `(${axis})` : axis)).join(" · ").replace("tokens · tokens", "tokens²")} · ${bytes_per_number}`,
  });
  const norm = bias ? [2 * d_model, "2 · d_model: weight, bias"] : [d_model, "d_model: weight"];
  const linear = (rows, columns, rowsName, columnsName) => ({
    parameters: [rows * columns + (bias ? rows : 0), `${columnsName} · ${rowsName}${bias ? ` + ${rowsName}` : ""}`],
    flops: [2 * batch * tokens * rows * columns, `2 · batch · tokens · ${columnsName} · ${rowsName}`],
  });
  const square_flops = [2 * batch * n_heads * tokens * tokens * d_head, "2 · batch · n_heads · tokens² · d_head"];
  const normWords = bias ? "LayerNorm: every token by itself is brought to mean 0 and variance 1, then scaled and shifted."
    : "RMSNorm: every token by itself is divided by its root mean square, then scaled.";
  const shared = group > 1 ? ` Every head of k serves ${group} heads of q.` : "";

  step("stream", "x", "x", [], [["x", stream]],
    "The residual stream: what the blocks before have made of every token.");
  step("attention", "norm", "h = attention_norm(x)", [["x", stream]], [["h", stream]],
    `${normWords} The stream itself stays as it is.`, { parameters: norm });
  step("attention", "q, k, v", "q, k, v = attention.qkv(h).split((d_model, n_kv, n_kv), dim=-1)", [["h", stream]],
    [["qkv", tokenwise("q + k + v", qkv)]],
    `One matrix makes all three: d_model numbers of q, and n_kv = n_kv_heads · d_head = ${n_kv_heads * d_head} each of k and v.`,
    linear(qkv, d_model, "(d_model + 2 n_kv)", "d_model"));
  step("attention", "split heads", "q, k, v = split_heads(q, n_heads), split_heads(k, n_kv_heads), split_heads(v, n_kv_heads)",
    [["qkv", tokenwise("q + k + v", qkv)]], [["q", q], ["k", kv], ["v", kv]],
    `Every token's numbers are cut into heads of d_head = d_model / n_heads = ${d_head}. The same memory, read in another order.`, { view: true });
  step("attention", "scores", "scores = attention_scores(q, k)", [["q", q], ["k", kv]], [["scores", square]],
    `q kᵀ / √d_head: every query with every key.${shared} Only the explicit path makes this matrix. The fused kernel works through it tile by tile and never holds it.`,
    { flops: square_flops, explicit: true });
  step("attention", "softmax", "weights = torch.softmax(scores, dim=-1)", [["scores", square]], [["weights", square]],
    "Over the keys: every row sums to 1. As large as the scores; the fused kernel never holds it either.", { explicit: true });
  step("attention", "weights · v", "heads = weights @ v", [["weights", square], ["v", kv]], [["heads", q]],
    `For every query a mixture of the values.${shared} tokens × tokens is gone again.`, { flops: square_flops });
  step("attention", "merge heads", "merged = merge_heads(heads)", [["heads", q]], [["merged", stream]],
    "The heads side by side again: n_heads · d_head = d_model. This one copies.");
  step("attention", "out", "a = attention.out(merged)", [["merged", stream]], [["a", stream]],
    "Mixes what the heads have found.", linear(d_model, d_model, "d_model", "d_model"));
  step("stream", "x + attention", "x = x + a", [["x", stream], ["a", stream]], [["x", stream]],
    "Added to the stream, number by number. So the shapes had to be the same.");
  step("feed-forward", "norm", "h = feed_forward_norm(x)", [["x", stream]], [["h", stream]], normWords, { parameters: norm });
  if (gated) {
    step("feed-forward", "gate", "g = feed_forward.gate(h)", [["h", stream]], [["g", hidden]],
      "Will say how much of each of the d_ff numbers passes.", linear(d_ff, d_model, "d_ff", "d_model"));
  }
  step("feed-forward", "up", "u = feed_forward.up(h)", [["h", stream]], [["u", hidden]],
    `Every token by itself, from d_model to d_ff numbers: ${digits(d_ff / d_model)} times as many.`, linear(d_ff, d_model, "d_ff", "d_model"));
  if (gated) {
    step("feed-forward", "silu(g) · u", "hidden = silu(g) * u", [["g", hidden], ["u", hidden]], [["hidden", hidden]],
      "The activation of the gate, times up, number by number: SwiGLU.");
  } else {
    step("feed-forward", "gelu(u)", "hidden = gelu(u)", [["u", hidden]], [["hidden", hidden]], "The activation, number by number.");
  }
  step("feed-forward", "down", "f = feed_forward.down(hidden)", [["hidden", hidden]], [["f", stream]],
    "Back to d_model numbers a token.", linear(d_model, d_ff, "d_model", "d_ff"));
  step("stream", "x + feed-forward", "x = x + f", [["x", stream], ["f", stream]], [["x", stream]],
    "The block's output has the shape of its input. So blocks can be stacked.");
  return steps;
}

// The divisor of `whole` nearest to `number`, not above `most`; of two, the smaller.
function nearestDivisor(number, whole, most) {
  for (let gap = 0; ; gap++) {
    for (const d of [number - gap, number + gap]) if (d >= 1 && d <= most && whole % d === 0) return d;
  }
}

// What is wrong with a config, in words, and the nearest that work: [{ text, config }].
// A size that cannot be read (an empty field) is taken from `last`.
function mend(config, last) {
  const near = { ...config };
  const words = [], changed = [];
  for (const [name, [most]] of Object.entries(SIZES)) {
    const value = config[name];
    if (Number.isInteger(value) && value >= 1 && value <= most) continue;
    near[name] = Number.isFinite(value) ? Math.min(most, Math.max(1, Math.round(value))) : last[name];
    words.push(`${name} must be a whole number from 1 to ${most}.`);
    changed.push(name);
  }
  const offers = [];
  const offer = (names, found) => offers.push({ text: [...new Set(names)].map((name) => `${name} = ${found[name]}`).join(", "), config: found });
  const share = (names, found) => { // the heads of k and v, to go with those of q
    if (found.n_heads % found.n_kv_heads === 0) { offer(names, found); return; }
    const n_kv_heads = nearestDivisor(Math.min(found.n_kv_heads, found.n_heads), found.n_heads, SIZES.n_kv_heads[0]);
    offer([...names, "n_kv_heads"], { ...found, n_kv_heads });
  };
  if (near.d_model % near.n_heads) {
    words.push(`d_model = ${near.d_model} cannot be cut into n_heads = ${near.n_heads} equal heads.`);
    const most = Math.floor(SIZES.d_model[0] / near.n_heads);
    const d_model = Math.min(most, Math.max(1, Math.round(near.d_model / near.n_heads))) * near.n_heads;
    share([...changed, "d_model"], { ...near, d_model });
    share([...changed, "n_heads"], { ...near, n_heads: nearestDivisor(near.n_heads, near.d_model, SIZES.n_heads[0]) });
  } else if (near.n_heads % near.n_kv_heads) {
    share(changed, near);
  } else if (changed.length) offer(changed, near);
  if (near.n_heads % near.n_kv_heads) {
    words.push(`n_heads = ${near.n_heads} heads of q cannot share n_kv_heads = ${near.n_kv_heads} heads of k and v evenly.`);
  }
  return { words: words.join(" "), offers };
}

const ROW = 28, STREAM = 20, LEFT = 52, RIGHT = 186, BARS = 200, TOP = 4;
const LABEL = { bytes: 70, shape: 170 }; // room behind the longest bar, in pixels

export default {
  render({ model, el }) {
    const state = model.get("state");
    const { root, say } = frame(el, { css: CSS, label: state.title });
    let config = { ...state.config }, works = config;
    let alike = config.n_heads === config.n_kv_heads; // then k and v follow q
    let steps = blockSteps(works), at = 0;

    // ---- controls ----
    let own = false; // "your own" was picked: it stays, whatever the numbers are
    const preset = select("block", [...PRESETS.map(([name], i) => [String(i), name]), ["own", "your own"]], "own", (value) => {
      own = value === "own";
      if (!own) change({ ...PRESETS[value][1], ...PRESETS[value][2] });
    });
    const fields = Object.entries(SIZES).map(([name, [most, low, high]]) => {
      const number = element("input", { type: "number", min: 1, max: most, step: 1, "aria-label": name,
        onInput: () => change({ [name]: number.valueAsNumber }) });
      const range = element("input", { type: "range", min: low, max: high, step: 1, "aria-label": `${name}, powers of two`,
        onInput: () => change({ [name]: 2 ** range.valueAsNumber }) });
      return { name, number, range, node: element("div", { className: "size" }, element("span", {}, name), number, range) };
    });
    const bytes = select("bytes per number", [["2", "2"], ["4", "4"]], String(config.bytes_per_number),
      (value) => change({ bytes_per_number: Number(value) }));
    const toggles = { gated: "gated (SwiGLU)", bias: "bias" };
    const flags = Object.entries(toggles).map(([name, text]) => [name, button(text, () => change({ [name]: !config[name] }))]);
    const wrong = element("div", { className: "wrong", hidden: true });

    function change(values) {
      config = { ...config, ...values };
      if ("n_kv_heads" in values) alike = config.n_kv_heads === config.n_heads;
      else if (Number.isFinite(values.n_heads) && alike) config.n_kv_heads = config.n_heads;
      draw();
    }

    // ---- the card of the present step ----
    const previous = button("Previous", () => go(at - 1)), next = button("Next", () => go(at + 1));
    const name = element("b"), code = element("code", { className: "code" }), words = element("p");
    const count = element("div", { className: "faint number" });
    const tensors = element("div", { className: "tensors" });
    const facts = element("dl");
    const card = element("div", { className: "card" },
      element("div", { className: "head" }, element("div", {}, count, name), element("div", { className: "row", style: { gap: "6px", "flex-wrap": "nowrap" } }, previous, next)),
      code, tensors, facts, words);
    const totals = element("div", { className: "totals" });
    const way = svg("svg", { role: "listbox", "aria-label": "steps of the block", "aria-orientation": "vertical" });
    const key = element("div", { className: "key faint" }, "Bars: bytes of each step's tensor. Dashed: the fused kernel never makes it.");

    root.append(element("p", { className: "title" }, state.title),
      element("div", { className: "row presets" }, preset, bytes, ...flags.map(([, node]) => node)),
      element("div", { className: "sizes" }, ...fields.map(({ node }) => node)), wrong,
      element("div", { className: "body" }, element("div", { className: "way" }, way, key), card), totals);

    const follow = asTable(root, () => ({
      caption: `The steps of the block: ${Object.keys(SIZES).map((size) => `${size} ${works[size]}`).join(", ")}, ${works.bytes_per_number} bytes a number. FLOPs are of matrix products, forward.`,
      columns: ["step", "line", "tensor", "shape", "its axes", "parameters", "FLOPs", "bytes"],
      rows: steps.map((step, i) => [`${i} ${boxName(step)}${i === at ? " (here)" : ""}`, step.code, step.makes[0][0], times(step.axes), step.axes.map(([axis]) => axis).join(", "),
        step.parameters ? amount(step.parameters).trim() : "none", step.flops ? amount(step.flops).trim() : "none", step.view ? "a view" : `${amount(step.bytes)}B`]),
    }));
    root.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
      const to = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: steps.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      go(to, way.contains(root.getRootNode().activeElement));
    });

    function go(to, focus = false) {
      at = Math.min(steps.length - 1, Math.max(0, to));
      drawStep();
      if (focus) rows[at].node.focus({ preventScroll: true });
    }

    // ---- the drawn block: built once for each kind of feed-forward ----
    let rows = [], wires = [], walked, built = null;
    let wide = 400; // of the drawing, in pixels as they are seen: letters stay as large as letters are
    const boxName = ({ name }) => (name === "norm" ? (works.bias ? "LayerNorm" : "RMSNorm") : name);
    const middle = (i) => TOP + ROW * (i + 0.5);
    const place = (wanted, part) => steps.findIndex((step) => step.name === wanted && (!part || step.part === part));

    function build() {
      const height = TOP + ROW * steps.length + 12;
      way.setAttribute("viewBox", `0 0 ${wide} ${height}`);
      const panel = (part) => {
        const mine = steps.map((step, i) => [step, i]).filter(([step]) => step.part === part).map(([, i]) => i);
        const y = TOP + ROW * mine[0] - 1, tall = ROW * mine.length + 2;
        const turn = `rotate(-90 ${LEFT - 13} ${y + tall / 2 + 6})`;
        return svg("g", { class: part }, svg("rect", { class: "part", x: LEFT - 22, y, width: RIGHT - LEFT + 28, height: tall, rx: 8 }),
          svg("text", { class: "part-name", x: LEFT - 13, y: y + tall / 2 + 10, "text-anchor": "middle", transform: turn }, part));
      };

      // A wire belongs to the step to which it leads.
      wires = [];
      const wire = (to, d) => { const node = svg("path", { d }); wires.push({ to, node }); return node; };
      const plus = [place("x + attention"), place("x + feed-forward")];
      const half = 10; // of a box's height
      const drawn = [];
      walked = svg("path", { class: "wire stream done" });
      drawn.push(svg("path", { class: "wire stream", d: `M${STREAM} ${middle(0)}V${height - 2}` }), walked);
      for (const norm of [1, plus[0] + 1]) drawn.push(wire(norm, `M${STREAM} ${middle(norm)}H${LEFT}`));
      for (const end of plus) drawn.push(wire(end, `M${LEFT + 14} ${middle(end - 1) + half}V${middle(end)}H${STREAM + 9}`));
      const bypass = (from, to, x) => drawn.push(wire(to, `M${x} ${middle(from) + half}V${middle(to) - half}`));
      steps.forEach((step, i) => {
        const before = steps[i - 1];
        if (step.part !== "stream" && before.part === step.part && !(step.name === "up" && before.name === "gate")) {
          drawn.push(wire(i, `M${(LEFT + RIGHT) / 2} ${middle(i - 1) + half}V${middle(i) - half}`));
        }
      });
      bypass(place("split heads"), place("weights · v"), LEFT + 7); // v goes past scores and softmax
      if (works.gated) {
        bypass(place("norm", "feed-forward"), place("up"), LEFT + 7);
        bypass(place("gate"), place("silu(g) · u"), RIGHT - 7);
      }
      const labels = [svg("text", { class: "small", x: LEFT + 2, y: middle(place("softmax")) + 4, "text-anchor": "end" }, "v")];

      rows = steps.map((step, i) => {
        const y = middle(i);
        const narrow = { scores: [14, 0], softmax: [14, 0], gate: [14, 0], up: [0, works.gated ? 14 : 0] }[step.name] ?? [0, 0];
        const left = LEFT + narrow[0], right = RIGHT - narrow[1];
        const onStream = step.part === "stream";
        const shape = onStream
          ? [svg("circle", { class: "box", cx: STREAM, cy: y, r: 9 }),
            i ? svg("path", { class: "plus", d: `M${STREAM - 4.5} ${y}h9M${STREAM} ${y - 4.5}v9` })
              : svg("text", { x: STREAM, y: y + 4, "text-anchor": "middle" }, "x"),
            svg("text", { x: LEFT + (i ? 22 : 0), y: y + 4 }, i ? step.name : "the input")]
          : [svg("rect", { class: "box", x: left, y: y - half, width: right - left, height: 2 * half, rx: 5 }),
            svg("text", { x: (left + right) / 2, y: y + 4, "text-anchor": "middle" }, boxName(step))];
        const bar = svg("rect", { class: `bar${step.explicit ? " explicit" : ""}`, x: BARS, y: y - 7, height: 14, rx: 2 });
        const size = svg("text", { class: "small", y: y + 4 });
        const node = svg("g", { role: "option", class: onStream ? "stream-part" : step.part }, ...shape, bar, size);
        const hit = svg("rect", { class: "hit", x: BARS - 6, y: y - ROW / 2 + 1, width: wide - BARS + 6, height: ROW - 2, rx: 5 });
        const whole = svg("rect", { fill: "transparent", x: 0, y: y - ROW / 2, width: wide, height: ROW });
        node.prepend(whole, hit);
        node.addEventListener("click", () => go(i, true));
        return { node, bar, size, box: onStream ? null : shape[1] };
      });
      way.replaceChildren(panel("attention"), panel("feed-forward"), ...drawn, ...labels, ...rows.map(({ node }) => node));
    }

    // ---- drawing ----
    function draw() {
      const { words: complaint, offers } = mend(config, works);
      const before = steps[at];
      works = complaint ? offers[0].config : config;
      steps = blockSteps(works);
      if (built !== works.gated) {
        built = works.gated;
        const same = steps.findIndex((step) => step.name === before.name && step.part === before.part);
        at = same >= 0 ? same : Math.min(at, steps.length - 1);
        build();
      }

      const found = PRESETS.findIndex(([, values]) => Object.entries(values).every(([name, value]) => config[name] === value));
      preset.control.value = own || found < 0 ? "own" : String(found);
      bytes.control.value = String(config.bytes_per_number);
      for (const [name, node] of flags) node.setAttribute("aria-pressed", String(config[name]));
      const active = root.getRootNode().activeElement;
      for (const { name, number, range } of fields) {
        if (number !== active) number.value = Number.isFinite(config[name]) ? String(config[name]) : "";
        number.setAttribute("aria-invalid", String(new RegExp(`(^| )${name} `).test(complaint)));
        range.value = String(Math.log2(config[name] > 0 ? config[name] : works[name]));
        range.setAttribute("aria-valuetext", String(works[name]));
      }
      wrong.hidden = !complaint;
      wrong.replaceChildren(...(complaint ? [element("div", {}, complaint),
        element("div", { className: "row" }, `Shown is the nearest that works: ${offers[0].text}.`,
          ...offers.map(({ text, config: mended }, i) => button(`${i ? "or" : "take"} ${text}`, () => { change(mended); previous.focus({ preventScroll: true }); })))] : []));

      const most = Math.max(...steps.map((step) => step.bytes));
      const shapes = wide >= 560, widest = wide - BARS - LABEL[shapes ? "shape" : "bytes"] - (shapes ? LABEL.bytes : 0);
      rows.forEach(({ node, bar, size, box }, i) => {
        if (box) box.textContent = boxName(steps[i]);
        const { bytes, axes, parameters, flops, name: called } = steps[i];
        const width = bytes ? Math.max(1.5, bytes / most * widest) : 0;
        bar.setAttribute("width", width);
        size.setAttribute("x", BARS + width + 5);
        const bytesWords = bytes ? `${amount(bytes)}B` : "a view";
        size.textContent = shapes ? `${bytesWords} · ${times(axes)}` : bytesWords;
        node.setAttribute("aria-label", `${called}: ${times(axes)}, ${bytesWords}`);
        Object.assign(node.dataset, { shape: axes.map(([, n]) => n).join(), axes: axes.map(([axis]) => axis).join(), parameters, flops, bytes });
      });
      drawTotals();
      drawStep(complaint && `${complaint} Shown is the nearest that works: ${offers[0].text}. `);
    }

    function tensor([label, axes], known) {
      return [element("span", {}, label), element("div", { className: "shape" }, ...axes.map(([axis, size]) =>
        element("span", { className: `axis${known && !known.has(axis) ? " new" : ""}` }, String(size), element("small", {}, axis))))];
    }

    function drawStep(complaint = "") {
      const step = steps[at];
      rows.forEach(({ node }, i) => {
        node.setAttribute("aria-selected", String(i === at));
        node.setAttribute("tabindex", i === at ? "0" : "-1");
      });
      for (const { to, node } of wires) node.setAttribute("class", `wire${to <= at ? " done" : ""}`);
      walked.setAttribute("d", `M${STREAM} ${middle(0)}V${middle(at) + (at === steps.length - 1 ? ROW : 0)}`);
      previous.setAttribute("aria-disabled", String(at === 0));
      next.setAttribute("aria-disabled", String(at === steps.length - 1));
      count.textContent = `step ${at} of ${steps.length - 1}`;
      name.textContent = step.name;
      code.textContent = step.code;
      // an axis that no tensor coming in has, is marked
      const known = step.takes.length ? new Set(step.takes.flatMap(([, axes]) => axes.map(([axis]) => axis))) : null;
      tensors.replaceChildren(
        ...(step.takes.length ? [element("h4", {}, "takes"), ...step.takes.flatMap((one) => tensor(one))] : []),
        element("h4", {}, step.takes.length ? "makes" : "comes in"), ...step.makes.flatMap((one) => tensor(one, known)));
      const fact = (label, text, by = "") => [element("div", {}, element("dt", {}, label), element("dd", {}, text), element("dd", { className: "by" }, by))];
      facts.replaceChildren(
        ...fact("parameters", step.parameters ? amount(step.parameters).trim() : "none", step.parametersBy),
        ...fact("FLOPs", step.flops ? amount(step.flops).trim() : "none", step.flopsBy ?? "no matrix product"),
        ...fact("bytes", step.bytes ? `${amount(step.bytes)}B` : "none", step.bytesBy));
      words.textContent = step.words;
      const made = step.makes.map(([label, axes]) => `${label} ${times(axes)}`).join(", ");
      const learned = step.parameters ? `${amount(step.parameters).trim()} parameters` : "no parameters";
      const cost = step.flops ? `${amount(step.flops).trim()} FLOPs` : "no matrix product";
      say(`${complaint || ""}Step ${at} of ${steps.length - 1}, ${step.name}: ${made}; ${step.axes.map(([axis]) => axis).join(", ")}; ${learned}, ${cost}, ${step.bytes ? `${amount(step.bytes)}B` : "a view"}`, 300);
      follow();
    }

    function drawTotals() {
      const sum = (what, keep = () => true) => total(steps.filter(keep).map((step) => step[what]));
      const part = (wanted) => (step) => step.part === wanted;
      const bar = (shares) => element("div", { className: "split", "aria-hidden": "true" }, ...shares.filter(([, n]) => n).map(([kind, n]) =>
        element("i", { className: kind, style: { flex: `${n / total(shares.map(([, m]) => m))} 1 0` } })));
      const line = (className, label, text, shares, ...notes) => element("div", { className: `total ${className}` },
        element("span", { className: "faint" }, `${label} `), element("b", {}, text), bar(shares), element("div", { className: "faint" }, ...notes));
      const dot = (kind) => element("i", { className: `dot ${kind}` });

      const shares = (what) => ["attention", "feed-forward"].map((kind) => [kind, sum(what, part(kind))]);
      const inWords = (what) => shares(what).flatMap(([kind, n], i) => [i ? " " : "", element("span", { className: "share" }, dot(kind), `${kind} ${percent(n / sum(what))}`)]);
      const squares = sum("flops", (step) => step.flopsBy?.includes("tokens²"));
      const explicit = sum("bytes", (step) => step.explicit);
      totals.replaceChildren(
        line("parameters", "parameters", amount(sum("parameters")).trim(), shares("parameters"), ...inWords("parameters"), element("div", {}, "each with its norm")),
        line("flops", "FLOPs forward", amount(sum("flops")).trim(), [["attention", sum("flops", part("attention")) - squares],
          ["attention explicit", squares], ["feed-forward", sum("flops", part("feed-forward"))]], ...inWords("flops"), element("div", {}, `tokens × tokens: ${percent(squares / sum("flops"))} of all`)),
        line("bytes", "all tensors", `${amount(sum("bytes"))}B`,
          [["stream-part", sum("bytes", part("stream"))], ["attention", sum("bytes", (step) => step.part === "attention" && !step.explicit)],
            ["attention explicit", explicit], ["feed-forward", sum("bytes", part("feed-forward"))]],
          `${amount(sum("bytes") - explicit)}B without the scores and the softmax`));
    }

    build();
    built = works.gated;
    draw();
    new ResizeObserver(oncePerFrame(() => {
      const { clientWidth } = way.parentNode;
      if (!clientWidth || Math.abs(clientWidth - wide) < 2) return;
      wide = clientWidth;
      const focused = way.contains(root.getRootNode().activeElement);
      build();
      draw();
      if (focused) rows[at].node.focus({ preventScroll: true });
    })).observe(way.parentNode);
  },
};
