// Four activations and their slopes over x; the gate: activation(g) · u.

const CSS = `
.view { --relu: #d55e00; --gelu: #0072b2; --tanh: #b0509a; --silu: #00845f; }
.view.dark { --relu: #ff8f3f; --gelu: #62aef5; --tanh: #e79ccb; --silu: #2fc496; }
.controls { margin: 10px 0 0; }
.controls .field { display: grid; grid-template-columns: 1.2em minmax(60px, 240px) 5ch; }
.controls .field span { color: var(--ink); font-weight: 650; font-style: italic; }
.panels { display: grid; align-items: end; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: 6px 18px; margin: 10px 0 6px; }
figure { margin: 0; min-width: 0; }
figcaption { font-weight: 600; }
figcaption .faint { font-weight: 400; }
svg.plot { width: 100%; height: auto; display: block; cursor: ew-resize; touch-action: pan-y; border-radius: 4px; }
svg text { font: 11px var(--font); fill: var(--faint); font-variant-numeric: tabular-nums; }
.grid { stroke: var(--line); stroke-width: .6; opacity: .7; }
.axis { stroke: var(--faint); stroke-width: 1; }
.left { fill: var(--faint); opacity: .07; }
.curve { fill: none; stroke-width: 2.1; stroke-linejoin: round; }
.touch { fill: none; stroke-width: 7; opacity: .28; stroke-linecap: round; }
.ruler { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 3 3; opacity: .65; }
.dot { stroke: var(--paper); stroke-width: 1.5; }
text.at { fill: var(--ink); font-weight: 650; }
.relu { color: var(--relu); } .gelu { color: var(--gelu); } .gelu_tanh { color: var(--tanh); } .silu { color: var(--silu); }
.curve, .touch { stroke: currentColor; } .dot { fill: currentColor; }
.curve.gelu { stroke-width: 1.8; }
.curve.gelu_tanh { stroke-width: 7; opacity: .42; } /* a broad band: GELU runs along the middle of it */
.dot.gelu_tanh { opacity: .6; } .curve.silu { stroke-dasharray: 9 3; }
.curve.difference { color: var(--ink); } .dot.difference { color: var(--ink); }
table { border-collapse: collapse; width: 100%; max-width: 700px; margin: 6px 0 8px; }
th, td { text-align: end; padding: 3px 0 3px 8px; font-variant-numeric: tabular-nums; vertical-align: middle; line-height: 1.25; }
thead th { font-weight: 400; color: var(--faint); border-bottom: 1px solid var(--line); vertical-align: bottom; }
tbody th { padding-inline-start: 0; text-align: start; width: 1%; }
thead th:first-child { text-align: start; padding-inline-start: 0; }
td.words, th.words { text-align: start; padding-inline-start: 14px; width: 46%; }
tr.off td { opacity: .4; }
.switch, .switch[aria-pressed="true"] { display: flex; gap: 7px; align-items: center; padding: 2px 8px 2px 5px; background: none; color: var(--ink); font-size: 12px; white-space: nowrap; }
.switch[aria-pressed="true"] { border-color: var(--faint); }
.switch[aria-pressed="false"] { color: var(--faint); border-style: dashed; text-decoration: line-through; }
.switch[aria-pressed="false"] svg { opacity: .3; }
.switch svg { width: 26px; height: 10px; flex: none; }
.says { margin: 8px 0 0; font-size: 14px; min-height: 4.4em; max-width: 66ch; }
.gap { align-self: center; max-width: 46ch; }
.gap b { color: var(--ink); }
@container (max-width: 460px) { th, td { padding-inline-start: 5px; font-size: 12px; } td.words, th.words { padding-inline-start: 10px; } }
`;

// ---- the functions ----
const ROOT = Math.sqrt(8 / Math.PI), CUBE = 0.044715;
const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const bell = (x) => Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);

// 1 − erf(z), good to a dozen digits even where it is tiny: the series of erf near zero, a
// continued fraction far out.
function erfc(z) {
  if (z < 0) return 2 - erfc(-z);
  if (z < 2.5) {
    let term = 2 * z * Math.exp(-z * z) / Math.sqrt(Math.PI), sum = 0;
    for (let n = 1; term > 1e-18 * sum; n++) {
      sum += term;
      term *= 2 * z * z / (2 * n + 1);
    }
    return 1 - sum;
  }
  let below = z;
  for (let n = 60; n > 0; n--) below = z + n / 2 / below;
  return Math.exp(-z * z) / Math.sqrt(Math.PI) / below;
}
const normal = (x) => 0.5 * erfc(-x / Math.SQRT2); // Φ(x)
// ½ (1 + tanh(a)) is sigmoid(2a), which keeps its digits where tanh is nearly −1.
const bent = (x) => sigmoid(ROOT * (x + CUBE * x ** 3));
const ACTIVATIONS = {
  relu: { name: "ReLU", value: (x) => Math.max(x, 0), slope: (x) => (x > 0 ? 1 : 0) },
  gelu: { name: "GELU", value: (x) => x * normal(x), slope: (x) => normal(x) + x * bell(x) },
  gelu_tanh: { name: "GELU (tanh)", value: (x) => x * bent(x),
    slope: (x) => bent(x) + x * bent(x) * (1 - bent(x)) * ROOT * (1 + 3 * CUBE * x * x) },
  silu: { name: "SiLU", value: (x) => x * sigmoid(x), slope: (x) => sigmoid(x) * (1 + x * (1 - sigmoid(x))) },
};
const KEYS = Object.keys(ACTIVATIONS);
// Even in x, and taken on the left, where both are small: there it keeps its digits.
const difference = (x) => ACTIVATIONS.gelu.value(-Math.abs(x)) - ACTIVATIONS.gelu_tanh.value(-Math.abs(x));

const REACH = 4, U = 3; // of x or g, and of u
const VALUES = { low: -0.6, high: 4.1 };
const H = 240, LEFT = 30, TOP = 22, BASE = H - 20;
const minus = (number, places) => number.toFixed(places).replace("-", "−");
const list = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0] ?? "none");

export default {
  async render({ model, el }) {
    const state = model.get("state");
    const { root, say } = frame(el, { css: CSS, label: state.title });
    let x = state.x, u = 2, gated = false, apart = false;
    const on = new Set(KEYS);

    // ---- controls ----
    const sliderX = slider("x", { min: -REACH, max: REACH, step: 0.01, value: x, text: (v) => minus(v, 2), onInput: (v) => { x = v; draw(); } });
    const sliderU = slider("u", { min: -U, max: U, step: 0.01, value: u, text: (v) => minus(v, 2), onInput: (v) => { u = v; draw(); } });
    const gate = button("gated: activation(g) · u", () => { gated = !gated; draw(); });
    const gap = button("GELU − its tanh form", () => { apart = !apart; draw(); });
    const setX = (to) => { x = Math.min(REACH, Math.max(-REACH, Math.round(100 * to) / 100)); sliderX.set(x); draw(); };
    const setU = (to) => { u = Math.min(U, Math.max(-U, Math.round(100 * to) / 100)); sliderU.set(u); draw(); };

    // A plot that can be dragged along its axis; `axis()` gives its reach, value and setter.
    function plot(axis, height = H) {
      const picture = svg("svg", { class: "plot", role: "slider", tabindex: 0 });
      const caption = element("figcaption");
      const follow = (event) => {
        const box = picture.getBoundingClientRect();
        const { reach, set } = axis();
        set((event.clientX - box.left - LEFT) / (box.width - 8 - LEFT) * 2 * reach - reach);
      };
      picture.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        picture.setPointerCapture(event.pointerId);
        follow(event);
      });
      picture.addEventListener("pointermove", (event) => { if (picture.hasPointerCapture(event.pointerId)) follow(event); });
      picture.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const { reach, value, set } = axis();
        const step = event.shiftKey ? 0.01 : 0.1;
        const to = { ArrowLeft: value - step, ArrowDown: value - step, ArrowRight: value + step, ArrowUp: value + step,
          PageDown: value - 1, PageUp: value + 1, Home: -reach, End: reach }[event.key];
        if (to === undefined) return;
        set(to);
        event.preventDefault();
      });
      const made = { picture, caption, axis, height, width: 340, node: element("figure", {}, caption, picture) };
      // drawn at the size at which it is seen: letters stay as large as letters are
      new ResizeObserver(() => {
        const { clientWidth } = made.node;
        if (clientWidth && Math.abs(clientWidth - made.width) > 1) { made.width = clientWidth; draw(); }
      }).observe(made.node);
      return made;
    }
    const axisX = () => ({ reach: REACH, value: x, set: setX, name: gated ? "g" : "x" });
    const axisU = () => ({ reach: U, value: u, set: setU, name: "u" });
    const first = plot(axisX), second = plot(() => (gated ? axisU() : axisX())), third = plot(axisX, 170);
    const gapWords = element("p", { className: "gap faint number" });

    const rows = Object.fromEntries(KEYS.map((key) => {
      const sample = svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, svg("path", { class: `curve ${key}`, d: "M1 5H25" }));
      const toggle = element("button", { type: "button", className: "switch", onClick: () => { if (!on.delete(key)) on.add(key); draw(); } },
        sample, ACTIVATIONS[key].name);
      return [key, element("tr", {}, element("th", { scope: "row" }, toggle))];
    }));
    const head = element("tr");
    const says = element("p", { className: "says" });
    root.append(element("p", { className: "title" }, state.title),
      element("div", { className: "row controls" }, sliderX, sliderU, gate, gap),
      element("div", { className: "panels" }, first.node, second.node, third.node, gapWords), says,
      element("table", {}, element("thead", {}, head), element("tbody", {}, ...Object.values(rows))));

    // ---- plots ----
    // Draws curves { key: function } and the dots on them; `touch` gives the slope of a short tangent.
    function drawPlot({ picture, caption, axis, height, width }, { title, note = "", low, high, ticks, curves, slopes, number = (v) => minus(v, 0), shade = false }) {
      const { reach, value, name } = axis();
      const base = height - 20, RIGHT = width - 8;
      picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      const px = (v) => LEFT + (v + reach) / (2 * reach) * (RIGHT - LEFT);
      const py = (v) => TOP + (high - v) / (high - low) * (base - TOP);
      const inside = (v) => Math.min(base + 30, Math.max(TOP - 30, v)); // what lies outside is clipped, not drawn far away
      const line = (cls, x1, y1, x2, y2) => svg("line", { class: cls, x1, y1, x2, y2 });
      const text = (words, tx, ty, anchor = "middle", cls = "") => svg("text", { x: tx, y: ty, "text-anchor": anchor, class: cls }, words);
      // the broad band of the tanh form first: what follows is drawn upon it
      const shown = Object.keys(curves).filter((key) => on.has(key) || key === "difference").sort((a, b) => (b === "gelu_tanh") - (a === "gelu_tanh"));
      const path = (key) => {
        // two pieces that meet at 0: ReLU's slope jumps there, and nothing joins the two
        const piece = (from, to) => Array.from({ length: 121 }, (_, i) => {
          const v = from + (to - from) * i / 120;
          return `${i ? "L" : "M"}${px(v).toFixed(2)} ${inside(py(curves[key](v))).toFixed(2)}`;
        }).join("");
        return svg("path", { class: `curve ${key}`, d: key === "relu" ? piece(-reach, 0) + piece(1e-9, reach) : piece(-reach, reach) });
      };
      const tangent = (key) => {
        const slope = slopes[key](value) * (py(1) - py(0)) / (px(1) - px(0)); // in pixels
        const half = 22 / Math.hypot(1, slope), [cx, cy] = [px(value), py(curves[key](value))];
        return line(`touch ${key}`, cx - half, cy - half * slope, cx + half, cy + half * slope);
      };
      const clip = `clip${height}`;
      picture.replaceChildren(
        svg("clipPath", { id: clip }, svg("rect", { x: LEFT, y: TOP - 6, width: RIGHT - LEFT, height: base - TOP + 12 })),
        ...(shade ? [svg("rect", { class: "left", x: LEFT, y: TOP, width: px(0) - LEFT, height: base - TOP })] : []),
        ...ticks.flatMap((tick) => [line(tick ? "grid" : "axis", LEFT, py(tick), RIGHT, py(tick)), text(number(tick), LEFT - 5, py(tick) + 3.5, "end")]),
        ...Array.from({ length: 2 * reach + 1 }, (_, i) => i - reach).flatMap((tick) => [line(tick ? "grid" : "axis", px(tick), TOP, px(tick), base),
          text(minus(tick, 0), px(tick), height - 6)]),
        svg("g", { "clip-path": `url(#${clip})` }, ...(slopes ? shown.map(tangent) : []), ...shown.map(path)),
        line("ruler", px(value), TOP, px(value), base),
        ...shown.map((key) => svg("circle", { class: `dot ${key}`, cx: px(value), cy: py(curves[key](value)), r: key === "gelu_tanh" ? 7 : 4.5 })),
        text(`${name} ${minus(value, 2)}`, Math.min(RIGHT - 18, Math.max(LEFT + 18, px(value))), TOP - 9, "middle", "at"));
      caption.replaceChildren(title, ...(note ? [element("span", { className: "faint" }, ` ${note}`)] : []));
      picture.setAttribute("aria-label", `${name}: ${title}`);
      picture.setAttribute("aria-valuemin", -reach);
      picture.setAttribute("aria-valuemax", reach);
      picture.setAttribute("aria-valuenow", value);
      picture.setAttribute("aria-valuetext", minus(value, 2));
    }
    const all = (make) => Object.fromEntries(KEYS.map((key) => [key, make(ACTIVATIONS[key])]));

    function drawPlain() {
      drawPlot(first, { title: "Value:", note: "what the neuron says", ...VALUES, ticks: [0, 1, 2, 3, 4], shade: true,
        curves: all((a) => a.value), slopes: all((a) => a.slope) });
      drawPlot(second, { title: "Slope:", note: "how much gradient comes back", low: -0.25, high: 1.25, ticks: [0, 0.5, 1], shade: true,
        number: (v) => (v % 1 ? minus(v, 1) : minus(v, 0)), curves: all((a) => a.slope) });
    }
    // Both panels of the gate keep to one ladder of scales, so that growth is seen as growth.
    function drawGated() {
      const steps = [2, 4, 8, 12];
      const scaleFor = (most) => steps.find((step) => step >= most) ?? 12;
      const panel = (most) => { const top = scaleFor(most); return { low: -1.05 * top, high: 1.05 * top, ticks: [-top, -top / 2, 0, top / 2, top] }; };
      drawPlot(first, { title: "Over g:", note: `activation(g) · u with u = ${minus(u, 2)}`, ...panel(Math.abs(u) * REACH),
        curves: all((a) => (g) => a.value(g) * u), slopes: all((a) => (g) => a.slope(g) * u) });
      drawPlot(second, { title: "Over u:", note: "lines of slope activation(g)", ...panel(U * Math.max(0.5, x)),
        curves: all((a) => (v) => a.value(x) * v) });
    }
    const UNIT = 1e-4;
    const gapRange = { low: -5.5 * UNIT, high: 3 * UNIT };
    // how much taller a difference is drawn than it would be in the plot of the values
    const magnified = ((third.height - 20 - TOP) / (gapRange.high - gapRange.low)) / ((BASE - TOP) / (VALUES.high - VALUES.low));
    const [widest, place] = Array.from({ length: 401 }, (_, i) => i / 100).map((v) => [Math.abs(difference(v)), v]).reduce((a, b) => (b[0] > a[0] ? b : a));
    function drawDifference() {
      third.node.hidden = gapWords.hidden = !apart;
      if (!apart) return;
      drawPlot(third, { title: "GELU exact − tanh,", note: "in units of 10⁻⁴", ...gapRange,
        ticks: [-4, -2, 0, 2].map((t) => t * UNIT), number: (v) => minus(v / UNIT, 0), curves: { difference } });
      const name = gated ? "g" : "x";
      gapWords.replaceChildren(`Drawn about ${Math.round(magnified / 100) * 100} times taller than the values${gated ? " without a gate" : " above"}. At ${name} ${minus(x, 2)} the difference is `,
        element("b", {}, digits(difference(x))), `; it is nowhere more than ${digits(widest)} (near ${name} = ±${place.toFixed(1)}). `
        + "Small, but a model trained with one form answers a little differently with the other.");
    }

    // ---- table and words ----
    const flows = (key) => {
      const slope = ACTIVATIONS[key].slope(x);
      if (key === "relu") return x < 0 ? "none" : x > 0 ? "all of it" : "a corner: 0 to the left, 1 to the right";
      const size = Math.abs(slope);
      if (size < 0.01) return "next to none";
      if (slope < 0) return "a little, reversed";
      return slope < 0.3 ? "a little" : slope < 0.7 ? "about half" : slope < 0.98 ? "most of it" : slope <= 1.02 ? "all of it" : "a bit more than all";
    };
    function drawTable() {
      const names = gated ? ["activation(g)", "times u", "slope in g", "slope in u"] : ["value", "slope", "gradient that comes back"];
      head.replaceChildren(element("th", { scope: "col" }, ""), ...names.map((name, i) => element("th", { scope: "col", className: !gated && i === 2 ? "words" : "" }, name)));
      for (const [key, row] of Object.entries(rows)) {
        const [value, slope] = [ACTIVATIONS[key].value(x), ACTIVATIONS[key].slope(x)];
        const cells = gated ? [value, value * u, slope * u, value].map((v) => digits(v)) : [digits(value), digits(slope), flows(key)];
        while (row.children.length > 1) row.lastChild.remove(); // the switch stays, and keeps the focus
        row.append(...cells.map((words, i) => element("td", { className: !gated && i === 2 ? "words" : "" }, words)));
        row.className = on.has(key) ? "" : "off";
        row.querySelector("button").setAttribute("aria-pressed", String(on.has(key)));
      }
    }
    function sentence() {
      const shown = KEYS.filter((key) => on.has(key));
      const smooth = shown.filter((key) => key !== "relu");
      const name = (key) => ACTIVATIONS[key].name;
      if (!shown.length) return "No curve is on: switch one on in the table.";
      if (gated) {
        const larger = shown.filter((key) => { const a = ACTIVATIONS[key].value(x); return Math.abs(a * u) > Math.max(Math.abs(a), Math.abs(u)); });
        const shut = shown.filter((key) => Math.abs(ACTIVATIONS[key].value(x)) < 0.01);
        const turned = shown.filter((key) => ACTIVATIONS[key].value(x) <= -0.01);
        const product = larger.length ? `The product is larger than either of its factors for ${list(larger.map(name))}.`
          : shut.length ? `The gate is shut for ${list(shut.map(name))}: hardly anything of u passes, and hardly any gradient reaches u.${turned.length ? ` ${list(turned.map(name))}: a little of u, with its sign turned.` : ""}`
            : "The product is not larger than both factors here: try g and u above 2.";
        return `${product} The slope in u is activation(g): the gate says how much of u passes, forward and back.`;
      }
      if (x > 0) return "A positive sum passes, nearly whole once it is large, and so does the gradient. Now drag x below 0.";
      if (x === 0) return `Every curve gives 0 here.${smooth.length ? ` The slope of ${list(smooth.map(name))} is one half.` : ""}${on.has("relu") ? " ReLU has a corner; torch.relu takes 0 for its slope." : ""}`;
      const parts = [];
      if (on.has("relu")) parts.push("ReLU says 0 and its slope is 0: no gradient flows, so this neuron learns nothing from this token.");
      const by = (test) => smooth.filter((key) => test(ACTIVATIONS[key].slope(x)));
      const reversed = by((s) => s <= -0.01), forward = by((s) => s >= 0.01), hardly = by((s) => Math.abs(s) < 0.01);
      const has = (keys, one, many) => (keys.length > 1 ? many : one);
      if (forward.length) parts.push(`${list(forward.map(name))} still ${has(forward, "lets", "let")} gradient through.`);
      if (reversed.length) parts.push(`${list(reversed.map(name))} ${has(reversed, "lets", "let")} a little through with the sign reversed: here a larger sum gives a smaller output.`);
      if (hardly.length) parts.push(`${list(hardly.map(name))} ${has(hardly, "lets", "let")} next to nothing through, but not exactly 0.`);
      return parts.join(" ");
    }
    function speak(words) {
      const name = gated ? `g ${minus(x, 2)}, u ${minus(u, 2)}` : `x ${minus(x, 2)}`;
      const numbers = KEYS.filter((key) => on.has(key)).map((key) => {
        const { name: called, value, slope } = ACTIVATIONS[key];
        return gated ? `${called} ${digits(value(x))}, times u ${digits(value(x) * u)}` : `${called} ${digits(value(x))}, slope ${digits(slope(x))}`;
      }).join("; ");
      say(`${name}. ${numbers}. ${apart ? `GELU minus its tanh form ${digits(difference(x))}. ` : ""}${words}`, 400);
    }

    // Over x in halves, and where the ruler stands.
    function tables() {
      const shown = KEYS.filter((key) => on.has(key));
      const points = [...new Set([...Array.from({ length: 4 * REACH + 1 }, (_, i) => i / 2 - REACH), x])].sort((a, b) => a - b);
      const at = (v) => `${signed(Number(v.toFixed(2)))}${v === x ? " (here)" : ""}`;
      const columns = (words) => shown.map((key) => `${ACTIVATIONS[key].name}${words}`);
      const table = (caption, name, heads, make) => ({ caption, columns: [name, ...heads], rows: points.map((v) => [at(v), ...make(v)]) });
      const each = (make) => (v) => shown.map((key) => make(ACTIVATIONS[key], v));
      const made = gated ? [table(`activation(g) · u over g, with u = ${minus(u, 2)}`, "g", columns(" · u"), each((a, v) => a.value(v) * u)),
        table(`Slope in g of activation(g) · u, with u = ${minus(u, 2)}; the slope in u is activation(g)`, "g", columns(", slope in g"), each((a, v) => a.slope(v) * u))]
        : [table("Value over x", "x", columns(""), each((a, v) => a.value(v))), table("Slope over x", "x", columns(", slope"), each((a, v) => a.slope(v)))];
      return apart ? [...made, table("GELU minus its tanh form", gated ? "g" : "x", ["difference"], (v) => [difference(v)])] : made;
    }

    const follow = asTable(root, tables);
    const draw = oncePerFrame(paint);
    function paint() {
      sliderU.hidden = !gated;
      sliderU.style.display = gated ? "" : "none";
      sliderX.firstChild.textContent = gated ? "g" : "x";
      sliderX.control.setAttribute("aria-label", gated ? "g" : "x");
      gate.setAttribute("aria-pressed", String(gated));
      gap.setAttribute("aria-pressed", String(apart));
      if (gated) drawGated(); else drawPlain();
      drawDifference();
      drawTable();
      const words = sentence();
      says.textContent = words;
      speak(words);
      follow();
    }
    paint();
  },
};
