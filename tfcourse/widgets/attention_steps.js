// One small attention, all six matrices at once, in the geometry of the two products: Kᵀ stands
// above the scores and V above the output, so that a row and a column meet in the cell they make.
// Scores can be dragged, the mask painted, the temperature turned; what follows is worked out here.

const CSS = `
.view { --plus: #0072b2; --minus: #d55e00; --share: #009e73; }
.steps { display: flex; flex-wrap: wrap; gap: 6px; margin: 10px 0 8px; }
.says { margin: 0 0 6px; max-width: 64em; min-height: 1.45em; }
.stage { display: flex; flex-direction: column; gap: 22px 18px; overflow-x: auto; padding: 4px 4px 6px; margin: 0 -4px; }
.stage.wide { flex-direction: row; }
.product { flex: none; display: grid; grid-template-columns: auto auto auto auto; align-items: start; width: max-content;
  grid-template-rows: var(--top) var(--strip) auto auto; }
.matrix { position: relative; width: max-content; transition: opacity .15s; }
.back { opacity: .22; }
.line { display: flex; }
.cell { width: var(--w); height: var(--h); border: 1px solid var(--paper); border-radius: 5px; display: grid; place-items: center;
  font-size: var(--size); font-variant-numeric: tabular-nums; white-space: nowrap; overflow: hidden; user-select: none; -webkit-user-select: none; cursor: default; outline: none; }
.cell.zero { color: var(--faint) !important; }
.cell.forbidden { background-image: repeating-linear-gradient(135deg, var(--line) 0 2px, transparent 2px 6px) !important; color: var(--ink) !important; }
.cell.edited { font-weight: 700; text-decoration: underline dotted; text-underline-offset: 3px; }
.scores .cell { cursor: ns-resize; touch-action: none; }
.painting .scores .cell { cursor: pointer; }
.band { position: absolute; pointer-events: none; border: 2px solid var(--accent); border-radius: 6px; background: color-mix(in srgb, var(--accent) 9%, transparent); }
.band.chosen { border: 2.5px solid var(--ink); background: none; box-shadow: 0 0 0 1.5px var(--paper); }
.band.short { border: 2px dashed var(--warm); background: none; }
.top { grid-row: 1; grid-column: 4; align-self: end; }
.left { grid-row: 3; grid-column: 2; }
.right { grid-row: 3; grid-column: 4; }
.names { display: grid; color: var(--faint); font: 12px var(--mono); }
.names span { display: block; overflow: hidden; text-overflow: ellipsis; white-space: pre; unicode-bidi: isolate; }
.names .lit { color: var(--ink); font-weight: 700; }
.rows { justify-items: end; padding-inline-end: 7px; }
.rows span { height: var(--h); line-height: var(--h); max-width: 100px; }
.across { grid-row: 2; align-self: end; display: flex; padding-bottom: 2px; }
.across span { width: var(--w); text-align: center; }
.across.tall { height: var(--strip); }
.across.tall span { writing-mode: vertical-rl; transform: rotate(180deg); height: 100%; text-align: start; line-height: var(--w); padding-top: 3px; }
.of-top { grid-row: 1; align-self: end; justify-self: end; }
.caption { margin-top: 4px; font-size: 12px; line-height: 1.3; white-space: nowrap; }
.caption b { font-size: 13px; font-weight: 650; }
.caption.above { margin: 0 0 4px; }
.sums { grid-row: 3; grid-column: 3; font-size: 12px; color: var(--faint); font-variant-numeric: tabular-nums; padding: 0 8px 0 6px; min-width: var(--sum); }
.sums div { height: var(--h); line-height: var(--h); white-space: nowrap; }
.sums .wrong, .warn { color: var(--warm); font-weight: 700; }
.sum-head { grid-row: 2; grid-column: 3; align-self: end; font-size: 12px; color: var(--faint); padding: 0 8px 2px 6px; }
.shares { grid-row: 1; grid-column: 2; align-self: end; font-size: 12px; color: var(--faint); white-space: nowrap; }
.bars { display: flex; align-items: flex-end; height: min(84px, calc(var(--top) - 22px)); border-bottom: 1px solid var(--line); }
.bars i { width: calc(var(--w) - 6px); margin: 0 3px; background: var(--share); border-radius: 3px 3px 0 0; min-height: 0; }
.work { margin: 8px 0; padding: 8px 12px; background: var(--raised); border-radius: 8px; min-height: 6.2em;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.work div + div { margin-top: 2px; }
.work b { font-weight: 700; }
.follows { margin: 0 0 10px; font-variant-numeric: tabular-nums; }
.controls { display: grid; gap: 8px; }
.group { display: inline-flex; flex-wrap: wrap; gap: 5px; align-items: center; }
input[type="range"] { width: min(170px, 40vw); }
input[type="number"] { font: inherit; width: 6.5em; color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 6px; padding: 2px 6px; }
.keys { font-size: 12px; margin: 10px 0 0; }
`;

// Name, what it does, and the matrices that it works on.
const STEPS = [
  ["all", "Each row is one query. It meets all keys, its scores become weights, and the weights mix the values.", ["q", "k", "scores", "weights", "v", "output"]],
  ["1 · QKᵀ", "Every query meets every key: a row of Q times a column of Kᵀ, number by number, and all of it added.", ["q", "k", "scores"]],
  ["2 · ÷ √d_k", "All scores divided by √d_k (and by the temperature, if you turn it): their spread no longer depends on d_k.", ["scores"]],
  ["3 · mask", "A forbidden score becomes −∞. Press Space on a score to forbid or allow it; with “painted” a click does it too.", ["scores"]],
  ["4 · softmax", "exp of each score, divided by the row's sum: each row shares out one unit of attention. exp(−∞) is 0.", ["scores", "weights"]],
  ["5 · times V", "Each query's output: the values, mixed by its weights. A row of weights times a column of V.", ["weights", "v", "output"]],
];
const ORDER = ["q", "k", "scores", "weights", "v", "output"];
const GAP = 18; // between the two products
const WIDEST = 46, LOWEST = 22; // of a cell, in pixels
// Blue above 0, orange below; a share of 1 is green.
const HUES = { light: { plus: [0, 114, 178], minus: [213, 94, 0], share: [0, 158, 115] }, dark: { plus: [98, 174, 245], minus: [255, 143, 63], share: [47, 196, 150] } };

const sum = (list) => list.reduce((a, b) => a + b, 0);
const minus = (text) => text.replace("-", "−");
const short = (x) => (!Number.isFinite(x) ? digits(x) : Math.abs(x) >= 1e-4 || x === 0 ? minus(Number(x.toPrecision(3)).toString()) : "0.00");
// Of a row of weights: what it adds up to, with as many digits as tell it from 1.
const isOne = (total) => Math.abs(total - 1) < 5e-5;
const totalText = (total) => { const two = Number(total.toPrecision(2)); return isOne(total) ? "1" : String(two === 1 ? Number(total.toFixed(4)) : two); };
const signedTerm = (x) => (x < 0 ? `(${short(x)})` : short(x)); // inside a sum of products

export default {
  render({ model, el }) {
    const state = model.get("state");
    const { q, k, v, title } = state;
    const [n, m, d, e] = [q.length, k.length, q[0].length, v[0].length];
    const qNames = state.tokens.map(tokenText), kNames = state.keys.map(tokenText);
    const numbered = (names, size) => names?.map(tokenText) ?? Array.from({ length: size }, (_, i) => String(i));
    const features = numbered(state.feature_names, d), values = numbered(state.value_names, e);
    const { root, say, colors, onTheme } = frame(el, { css: CSS, label: title });

    // ---- all of attention, from the scores on ----
    const dots = () => q.map((row) => k.map((key) => sum(row.map((x, i) => x * key[i]))));
    const maskOf = { none: () => true, causal: (i, j) => j <= i };
    const fill = (rule) => q.map((_, i) => k.map((_, j) => rule(i, j)));
    const given = () => state.mask.map((row) => [...row]);
    const same = (a, b) => a.every((row, i) => row.every((x, j) => x === b[i][j]));
    const kindOf = (mask) => (same(mask, fill(maskOf.none)) ? "none" : n === m && same(mask, fill(maskOf.causal)) ? "causal" : "painted");
    let raw = dots(), mask = given(), kind = kindOf(mask), temperature = 1, after = false, step = 0;
    const edited = new Set();
    // Begin where there is something to see: at the greatest score.
    const most = raw.flat().indexOf(Math.max(...raw.flat()));
    let at = ["scores", Math.floor(most / m), most % m];

    function work() {
      const scaled = raw.map((row) => row.map((x) => x / Math.sqrt(d) / temperature));
      const masked = scaled.map((row, i) => row.map((x, j) => (mask[i][j] || after ? x : -Infinity)));
      const weights = masked.map((row, i) => {
        const top = Math.max(...row);
        if (top === -Infinity) return row.map(() => 0); // nothing to attend: zeros, not 0/0
        const raised = row.map((x) => Math.exp(x - top));
        const total = sum(raised);
        return raised.map((x, j) => (after && !mask[i][j] ? 0 : x / total));
      });
      const output = weights.map((row) => values.map((_, c) => sum(row.map((w, j) => w * v[j][c]))));
      return { raw, scaled, masked, weights, output, scores: [masked, raw, scaled][step] ?? masked };
    }
    let now = work();

    // ---- the matrices on the page ----
    const turned = Array.from({ length: d }, (_, f) => k.map((key) => key[f]));
    const made = (name, rows, columns, words, place) => {
      const lines = Array.from({ length: rows }, (_, i) => element("div", { className: "line", role: "row" }, ...Array.from({ length: columns }, (_, j) => {
        const node = element("div", { className: "cell", role: "gridcell", tabIndex: -1 });
        node.at = [name, i, j];
        return node;
      })));
      const node = element("div", { className: `matrix ${name} ${place}`, role: "grid", "aria-label": words }, ...lines);
      return { name, rows, columns, node, cells: lines.map((line) => [...line.children]) };
    };
    const parts = {
      q: made("q", n, d, "Q: a row for each query", "left"),
      k: made("k", d, m, "K turned: a column for each key", ""),
      scores: made("scores", n, m, "scores: queries down, keys across", "right"),
      weights: made("weights", n, m, "weights: queries down, keys across", "left"),
      v: made("v", m, e, "V: a row for each key", ""),
      output: made("output", n, e, "output: a row for each query", "right"),
    };
    const numbersOf = (name) => ({ q, k: turned, v }[name] ?? now[name]);

    const names = (list, className, place) => element("div", { className: `names ${className}`, style: place, "aria-hidden": "true" }, ...list.map((text) => element("span", { title: text }, text)));
    const label = {
      qs: [names(qNames, "rows", { "grid-row": 3, "grid-column": 1 }), names(qNames, "rows", { "grid-row": 3, "grid-column": 1 })],
      features: [names(features, "rows of-top", { "grid-column": "1 / 4" }), names(features, "across", { "grid-column": 2 })],
      keys: [names(kNames, "across", { "grid-column": 4 }), names(kNames, "across", { "grid-column": 2 }), names(kNames, "rows of-top", { "grid-column": "2 / 4" })],
      values: [names(values, "across", { "grid-column": 4 })],
    };
    const caption = (column, name, ...words) => element("div", { className: "caption faint", style: { "grid-row": 4, "grid-column": column } }, element("b", {}, name), element("br"), ...words);
    const titled = (part, name, words) => element("div", { className: "top" }, element("div", { className: "caption above faint" }, element("b", {}, name), ` ${words}`), part.node);
    const scoreName = element("span"), sums = element("div", { className: "sums", "aria-hidden": "true" }, ...qNames.map(() => element("div")));
    const bars = element("div", { className: "bars", "aria-hidden": "true" }, ...kNames.map(() => element("i"))), barsHead = element("div");
    const first = element("div", { className: "product" }, titled(parts.k, "Kᵀ", "what each contains"), label.features[0], label.features[1], label.keys[0],
      label.qs[0], parts.q.node, element("div", { style: { "grid-column": 3, width: "12px" } }), parts.scores.node,
      caption("1 / 3", "Q", "what each looks for"), caption(4, "scores", scoreName));
    const second = element("div", { className: "product" }, element("div", { className: "shares" }, barsHead, bars), titled(parts.v, "V", "what each gives"), label.keys[2], label.keys[1], element("div", { className: "sum-head" }, "sum"), label.values[0],
      label.qs[1], parts.weights.node, sums, parts.output.node,
      caption("1 / 4", "weights", "softmax of each row"), caption(4, "output", "weights · V"));
    const stage = element("div", { className: "stage" }, first, second);

    // ---- controls ----
    const steps = element("div", { className: "steps", role: "group", "aria-label": "steps" },
      ...STEPS.map(([name], i) => button(name, () => { step = i; draw(); })));
    const says = element("p", { className: "says faint" }), working = element("div", { className: "work" }), follows = element("p", { className: "follows" });
    const heat = slider("temperature", { min: -20, max: 20, value: 0, text: (x) => digits(10 ** (x / 20)),
      onInput: (x) => { temperature = 10 ** (x / 20); draw(); } });
    const kinds = ["none", ...(n === m ? ["causal"] : []), "painted"].map((name) => button(name, () => {
      kind = name;
      if (maskOf[name]) mask = fill(maskOf[name]); // painting goes on from what is there
      draw();
    }, { "data-kind": name }));
    const moments = [["−∞ before the softmax", false], ["0 after it", true]].map(([name, late]) => button(name, () => { after = late; draw(); }));
    const nothing = element("span", { className: "faint" });
    const field = element("input", { type: "number", step: "0.5", onInput: () => {
      if (Number.isFinite(field.valueAsNumber)) setScore(at[1], at[2], field.valueAsNumber, true);
    } });
    const fieldLabel = element("label", { className: "field" }, element("span", {}, "q·k of this cell"), field);
    const reset = button("reset", () => {
      raw = dots(); mask = given(); kind = kindOf(mask); temperature = 1; after = false; edited.clear(); heat.set(0); draw();
    });
    const group = (name, ...nodes) => element("div", { className: "group", role: "group", "aria-label": name }, element("span", { className: "faint" }, name), ...nodes);
    root.append(element("p", { className: "title" }, title), steps, says, stage, working, follows,
      element("div", { className: "controls" },
        element("div", { className: "row" }, group("mask", ...kinds), group("forbidden cells get", ...moments, nothing)),
        element("div", { className: "row" }, heat, fieldLabel, reset)),
      element("p", { className: "keys faint" }, "Point at a cell. A click holds it, Escape lets it go. Drag a score up or down, or press + and −; Space forbids or allows it. Arrows move, page up and down change the matrix."));
    const follow = asTable(root, tables);

    function setScore(i, j, value, typing = false) {
      raw[i][j] = clamp(value, -99, 99);
      edited.add(i * m + j);
      draw(typing);
    }
    function toggle(i, j) {
      mask[i][j] = !mask[i][j];
      kind = "painted";
      draw();
    }

    // ---- pointing, dragging, keys ----
    let dragging = false;
    const focused = () => root.getRootNode().activeElement;
    const held = () => focused()?.at; // a cell that has the focus keeps it
    const cellOf = ([name, i, j]) => parts[name].cells[i][j];
    function go(to) {
      if (dragging || to.every((x, i) => x === at[i])) return;
      at = to;
      draw();
    }
    stage.addEventListener("pointerover", ({ target }) => { if (target.at && !held()) go(target.at); });
    stage.addEventListener("focusin", ({ target }) => { if (target.at) go(target.at); });
    stage.addEventListener("pointerdown", (event) => {
      const node = event.target;
      if (!node.at || event.button) return;
      event.preventDefault();
      node.focus({ preventScroll: true });
      const [name, i, j] = node.at;
      if (name !== "scores") return;
      const from = event.clientY, start = raw[i][j];
      let far = false;
      node.setPointerCapture(event.pointerId);
      const move = ({ clientY }) => {
        far ||= Math.abs(clientY - from) > 3;
        dragging = far;
        if (far) setScore(i, j, start + Math.round((from - clientY) / 2) / 4);
      };
      const stop = () => {
        node.removeEventListener("pointermove", move);
        if (!far && kind === "painted") toggle(i, j);
        if (far) { dragging = false; draw(); }
      };
      node.addEventListener("pointermove", move);
      for (const end of ["pointerup", "pointercancel"]) node.addEventListener(end, stop, { once: true });
    });
    // Where an arrow leads beyond the edge of a matrix: along the row, or up and down a column.
    const beyond = {
      ArrowRight: { q: "scores", scores: "weights", weights: "output" }, ArrowLeft: { output: "weights", weights: "scores", scores: "q" },
      ArrowDown: { k: "scores", v: "output" }, ArrowUp: { scores: "k", output: "v" },
    };
    stage.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !event.target.at) return;
      const [name, i, j] = at, part = parts[name];
      const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      const onScore = name === "scores";
      if (by) {
        const [row, column] = [i + by[0], j + by[1]];
        const inside = row >= 0 && row < part.rows && column >= 0 && column < part.columns;
        const next = parts[beyond[event.key][name]];
        if (inside) part.cells[row][column].focus();
        else if (next && by[0]) next.cells[by[0] > 0 ? 0 : next.rows - 1][j].focus();
        else if (next) next.cells[i][by[1] > 0 ? 0 : next.columns - 1].focus();
      } else if (onScore && (event.key === " " || event.key === "Enter")) toggle(i, j);
      else if (onScore && "+=".includes(event.key)) setScore(i, j, raw[i][j] + 0.5);
      else if (onScore && "-−_".includes(event.key)) setScore(i, j, raw[i][j] - 0.5);
      else if (event.key === "PageDown" || event.key === "PageUp") {
        const next = parts[ORDER[clamp(ORDER.indexOf(name) + (event.key === "PageDown" ? 1 : -1), 0, 5)]];
        next.cells[Math.min(i, next.rows - 1)][Math.min(j, next.columns - 1)].focus();
      } else if (event.key === "Escape") event.target.blur();
      else return;
      event.preventDefault();
    });

    // ---- how wide a cell may be ----
    const whole = (matrix) => matrix.flat().every(Number.isInteger);
    const plain = { q: whole(q), k: whole(k), v: whole(v) };
    // With one decimal what is below 1 keeps two, and loses its 0: .63, −.05, 2.1.
    const fixed = (x, places) => (places === 1 && Math.abs(x) < 0.995 ? x.toFixed(2).replace("0.", ".") : x.toFixed(places));
    const write = (x, places, isWhole) => (!Number.isFinite(x) || x === 0 ? digits(x) : isWhole ? signed(x) : minus(fixed(x, places)).replace(/^−(0?\.?0*)$/, "$1"));
    const longest = (matrix, places, isWhole) => matrix.flat().map((x) => write(x, places ?? 0, isWhole)).reduce((a, b) => (b.length > a.length ? b : a), "");
    // Decimals of [Q and K, scores, weights, V and output], the best first; null: colours alone.
    const PLANS = [[2, 2, 2, 2], [1, 2, 2, 2], [1, 2, 2, 1], [1, 1, 2, 1], [1, 1, 1, 1]];
    const LAST = [null, 1, 1, null], SIZES = [12, 11, 10];
    const ruler = document.createElement("canvas").getContext("2d");
    let plan = PLANS[0], reserved = "0.00", reservedSum = "0 ≠ 1";
    function layout(typing = false) {
      const room = Math.max(250, root.clientWidth - 34), { font, mono } = colors();
      const measure = (text, size, family = font) => { ruler.font = `${size}px ${family}`; return ruler.measureText(text).width; };
      const textWidth = (list) => Math.min(100, Math.max(...list.map((text) => measure(text, 12, mono)))) + 8;
      const side = textWidth(qNames), sumWide = Math.max(60, 1.1 * measure(reservedSum, 12) + 16);
      const narrow = (count, places) => (places === null || count > 16 ? clamp(150 / count, 4, 12) : 0);
      const widths = ([a, s, w, b], size) => {
        const pixels = (...texts) => Math.max(...texts.map((text) => measure(text, size))) + 5;
        return {
          q: narrow(d, a) || pixels(longest(q, a, plain.q)),
          scores: Math.max(pixels(s === 2 ? reserved : reserved.slice(0, -1)), narrow(d, a) ? 0 : pixels(longest(k, a, plain.k))),
          weights: pixels(w === 2 ? "0.00" : ".00"),
          output: narrow(e, b) || pixels(longest(v, b, plain.v), longest(now.output, b, false)),
        };
      };
      // one product takes so much room, and so does the other
      const one = (x) => side + d * x.q + 12 + Math.max(120, m * x.scores) + 12;
      const two = (x) => side + m * x.weights + sumWide + Math.max(110, e * x.output) + 12; // room for the titles, too
      const all = PLANS.flatMap((decimals) => SIZES.map((size) => ({ decimals, x: widths(decimals, size) })));
      const last = { decimals: LAST, x: widths(LAST, 10) };
      const wide = all.find(({ x }) => one(x) + GAP + two(x) <= room);
      const best = wide ?? all.find(({ x }) => one(x) <= room) ?? last, other = wide ?? all.find(({ x }) => two(x) <= room) ?? last;
      plan = [best.decimals[0], best.decimals[1], other.decimals[2], other.decimals[3]];
      const x = { ...best.x, weights: other.x.weights, output: other.x.output };
      // what room is left goes to the narrowest cells
      const grow = (mine, spare) => {
        let target = WIDEST;
        const added = () => sum(mine.map(([name, count]) => (count > 16 ? 0 : count * Math.max(0, target - x[name]))));
        while (target > 0 && added() > spare) target -= 1;
        for (const [name, count] of mine) if (count <= 16) x[name] = Math.max(x[name], target);
      };
      const pairs = [[["q", d], ["scores", m]], [["weights", m], ["output", e]]];
      if (wide) grow(pairs.flat(), room - one(x) - GAP - two(x));
      else { grow(pairs[0], room - one(x)); grow(pairs[1], room - two(x)); }

      const tall = (count, places) => (places === null || count > 16 ? clamp(180 / count, 4, LOWEST) : LOWEST);
      const sizes = { q: [x.q, 28], k: [x.scores, tall(d, plan[0])], scores: [x.scores, 28], weights: [x.weights, 28], v: [x.output, 24], output: [x.output, 28] };
      const written = { q: longest(q, plan[0], plain.q), k: longest(k, plan[0], plain.k), scores: reserved, weights: "0.00", v: longest(v, plan[3], plain.v), output: longest(now.output, plan[3], false) };
      for (const [name, [w, h]] of Object.entries(sizes)) set(parts[name].node, { w: `${w}px`, h: `${h}px`, size: `${SIZES.find((size) => measure(written[name], size) + 3 <= w) ?? 10}px` });
      for (const list of label.qs) set(list, { h: "28px" });
      set(sums, { h: "28px", sum: `${sumWide}px` });
      set(label.features[0], { h: `${sizes.k[1]}px` });
      set(label.keys[2], { h: `${sizes.v[1]}px` });
      set(bars, { w: `${x.weights}px` });
      label.features[0].style.display = sizes.k[1] < 12 ? "none" : "";
      // names that are too long for their column stand upright
      let strip = 18;
      for (const [list, texts, w] of [[label.features[1], features, x.q], [label.keys[0], kNames, x.scores], [label.keys[1], kNames, x.weights], [label.values[0], values, x.output]]) {
        const length = textWidth(texts), upright = length - 6 > w;
        list.classList.toggle("tall", upright);
        set(list, { w: `${w}px` });
        list.style.display = w < 10 ? "none" : "";
        if (upright && w >= 10) strip = Math.max(strip, length + 2);
      }
      const top = [d * sizes.k[1] + 24, m * sizes.v[1] + 24], both = Math.max(...top);
      stage.classList.toggle("wide", Boolean(wide));
      [first, second].forEach((block, i) => set(block, { strip: `${strip}px`, top: `${wide ? both : top[i]}px` }));
      draw(typing);
    }
    function set(node, variables) { for (const [name, value] of Object.entries(variables)) node.style.setProperty(`--${name}`, value); }

    // ---- drawing ----
    // What the chosen cell is made of, or what it goes into: [matrix, row or null, column or null].
    function linked([name, i, j]) {
      return {
        q: [["q", i, null], ["scores", i, null]], k: [["k", null, j], ["scores", null, j]],
        scores: [["q", i, null], ["k", null, j]], weights: step === 5 ? [["output", i, null], ["v", j, null]] : [["scores", i, null]],
        v: [["weights", null, i], ["output", null, j]], output: [["weights", i, null], ["v", null, j]],
      }[name];
    }
    function band(className, name, i, j) {
      const { node, rows, columns } = parts[name];
      const part = (index, count, unit) => (index === null ? [0, `calc(${count} * var(--${unit}))`] : [`calc(${index} * var(--${unit}))`, `var(--${unit})`]);
      const [top, height] = part(i, rows, "h"), [left, width] = part(j, columns, "w");
      node.append(element("i", { className: `band ${className}`, "aria-hidden": "true", style: { top, left, width, height } }));
    }
    const blend = (paper, hue, share) => paper.map((c, i) => Math.round(c + (hue[i] - c) * share));

    function draw(typing = false) {
      now = work();
      const longestScore = longest(now.scores, 2, false);
      if (longestScore.length > reserved.length) { reserved = longestScore; layout(typing); return; } // a score has outgrown its cell
      const totals = now.weights.map((row) => sum(row)), said = totals.map((total) => totalText(total) + (isOne(total) ? "" : " ≠ 1"));
      const longestSum = Math.max(...said.map((text) => text.length));
      if (longestSum > reservedSum.length) { reservedSum = "0".repeat(longestSum - 4) + " ≠ 1"; layout(typing); return; } // so has a sum
      const paper = (getComputedStyle(root).backgroundColor.match(/[\d.]+/g) ?? [255, 255, 255]).slice(0, 3).map(Number);
      const hues = isDark(`rgb(${paper})`) ? HUES.dark : HUES.light;
      const blocked = (name, i, j) => ((name === "scores" && step !== 1 && step !== 2) || name === "weights") && !mask[i][j];
      for (const name of ORDER) {
        const numbers = numbersOf(name), share = name === "weights";
        const finite = (name === "v" || name === "output" ? [...v, ...now.output] : numbers).flat().filter(Number.isFinite).map(Math.abs);
        const reach = share ? 1 : Math.max(...finite, 1e-9);
        const places = { q: plan[0], k: plan[0], scores: plan[1], weights: plan[2] }[name] ?? plan[3];
        const narrow = { q: d, k: d, v: e, output: e }[name] > 16;
        parts[name].node.classList.toggle("back", !STEPS[step][2].includes(name));
        parts[name].cells.forEach((row, i) => row.forEach((node, j) => {
          const x = numbers[i][j], forbidden = blocked(name, i, j);
          const color = blend(paper, share ? hues.share : x < 0 ? hues.minus : hues.plus, forbidden || !Number.isFinite(x) ? 0 : 0.8 * Math.abs(x) / reach);
          const isEdited = name === "scores" && edited.has(i * m + j);
          node.textContent = places === null || narrow ? "" : write(x, places, plain[name]);
          node.style.background = css(color);
          node.style.color = inkOn(color);
          node.className = `cell${forbidden ? " forbidden" : ""}${x === 0 && !forbidden ? " zero" : ""}${isEdited ? " edited" : ""}`;
          node.tabIndex = name === at[0] && i === at[1] && j === at[2] ? 0 : -1;
          node.setAttribute("aria-label", `${pair(name, i, j)}: ${short(x)}${forbidden ? ", forbidden" : ""}`);
        }));
      }
      for (const old of stage.querySelectorAll(".band")) old.remove();
      totals.forEach((total, i) => {
        sums.children[i].textContent = said[i];
        sums.children[i].className = isOne(total) ? "" : "wrong";
        if (!isOne(total)) band("short", "weights", i, null);
      });
      for (const [name, i, j] of linked(at)) if (STEPS[step][2].includes(name)) band("lit", name, i, j);
      band("chosen", ...at);

      const [name, i, j] = at;
      const row = name === "k" || name === "v" ? null : i, key = { k: j, scores: j, weights: j, v: i }[name] ?? null;
      const lit = (lists, index) => lists.forEach((list) => [...list.children].forEach((node, at_) => node.classList.toggle("lit", at_ === index)));
      lit(label.qs, row);
      lit(label.keys, key);
      lit(label.features, name === "q" ? j : name === "k" ? i : null);
      lit(label.values, name === "v" || name === "output" ? j : null);
      const open = mask.flat().every(Boolean);
      scoreName.textContent = `q·k${step === 1 ? "" : ` / √${d}${temperature === 1 ? "" : ` / ${digits(temperature)}`}`}${open || after || step === 1 || step === 2 ? "" : ", masked"}`;

      [...steps.children].forEach((node, s) => node.setAttribute("aria-pressed", String(s === step)));
      says.textContent = STEPS[step][1];
      for (const node of kinds) node.setAttribute("aria-pressed", String(node.dataset.kind === kind));
      moments.forEach((node, late) => { node.disabled = open; node.setAttribute("aria-pressed", String(!open && Boolean(late) === after)); });
      nothing.textContent = open ? "(no cell is forbidden)" : "";
      stage.classList.toggle("painting", kind === "painted");
      fieldLabel.style.visibility = name === "scores" ? "visible" : "hidden";
      if (!typing && name === "scores") field.value = String(Number(raw[i][j].toFixed(3)));

      working.replaceChildren(...explain(name, i, j).map((line) => element("div", {}, ...line)));
      drawRow(row ?? shownRow);
      if (!dragging) say(working.innerText, 350);
      follow();
    }

    const feature = (i) => (state.feature_names ? features[i] : `number ${i}`), meaning = (i) => (state.value_names ? values[i] : `number ${i}`);
    const pair = (name, i, j) => ({
      q: () => `query of ${qNames[i]}, ${feature(j)}`, k: () => `key of ${kNames[j]}, ${feature(i)}`,
      v: () => `value of ${kNames[i]}, ${meaning(j)}`, output: () => `output of ${qNames[i]}, ${meaning(j)}`,
    }[name]?.() ?? `${qNames[i]} → ${kNames[j]}`);

    // The arithmetic of the cell, in numbers: a list of lines.
    function explain(name, i, j) {
      const { scaled, masked, weights, output } = now;
      const bold = (x) => element("b", {}, typeof x === "string" ? x : short(x));
      const who = pair(name, i, j);
      // of a sum of products only those that are not 0
      const products = (list) => {
        const telling = list.filter(([a, b]) => a * b !== 0);
        const left = list.length - telling.length;
        const terms = telling.map(([a, b]) => `${signedTerm(a)}·${signedTerm(b)}`);
        const text = (terms.length > 16 ? [...terms.slice(0, 8), `… (${terms.length - 10} more)`, ...terms.slice(-2)] : terms).join(" + ") || "0";
        return `${text}${left && telling.length ? ` (+ ${left} ${left > 1 ? "products that are" : "product that is"} 0)` : ""}`;
      };
      const dotted = () => (edited.has(i * m + j) ? [`${who}: you set q·k to `, bold(raw[i][j])]
        : [`${who}: q·k = ${products(q[i].map((x, f) => [x, k[j][f]]))} = `, bold(raw[i][j])]);
      const divided = () => [`${who}: ${short(raw[i][j])} / √${d}${temperature === 1 ? "" : ` / ${digits(temperature)}`} = `, bold(scaled[i][j])];
      const permitted = () => (mask[i][j] ? [`${who}: may attend, the score stays `, bold(scaled[i][j])]
        : after ? [`${who}: forbidden, but the score stays until the softmax has been taken: `, bold(scaled[i][j])]
          : [`${who}: forbidden, the score becomes `, bold("−∞")]);
      if (name === "q") return [[`${who}: `, bold(q[i][j])], [`The row is what ${qNames[i]} looks for. It meets every key: that makes its row of scores.`]];
      if (name === "k") return [[`${who}: `, bold(turned[i][j])], [`The column is what ${kNames[j]} contains. Every query meets it: that makes its column of scores.`]];
      if (name === "v") return [[`${who}: `, bold(v[i][j])], [`The row is what ${kNames[i]} gives. Its column of weights says how much of it each query gets.`]];
      if (name === "scores") return { 1: [dotted()], 2: [divided()], 3: [permitted()] }[step] ?? [dotted(), divided(), permitted()];
      if (name === "weights") {
        if (masked[i].every((x) => x === -Infinity)) return [[`${qNames[i]} may attend to nothing: 0/0. This course gives `, bold("zeros"), "."]];
        const top = Math.max(...masked[i]), less = top > 30 ? top : 0; // exp of more would not be read, nor of 710 worked out
        const raised = masked[i].map((x) => Math.exp(x - less)), total = sum(raised);
        const rest = `(${raised.map(short).join(" + ")})`, own = `exp(${short(masked[i][j])}${less ? ` − ${short(less)}` : ""})`;
        if (!mask[i][j] && after) return [[`${who}: ${own} / ${rest} = ${short(raised[j] / total)}, then put to `, bold("0")], [`Nobody else gets that share: the row sums to ${totalText(sum(weights[i]))}${isOne(sum(weights[i])) ? ", to four digits" : ", not 1"}.`]];
        if (!mask[i][j]) return [[`${who}: exp(−∞) / ${rest} = 0 / ${short(total)} = `, bold("0")], ["The others share out the whole: the row still sums to 1."]];
        return [[`${who}: ${own} / ${rest} = ${short(raised[j])} / ${short(total)} = `, bold(weights[i][j])]];
      }
      return [[`${who}: ${products(weights[i].map((w, t) => [w, v[t][j]]))} = `, bold(output[i][j])]];
    }

    // What follows for one query: its weights as bars, how spread they are, what it gets.
    let shownRow = at[1];
    function drawRow(i) {
      shownRow = i;
      const row = now.weights[i], total = sum(row);
      const entropy = -sum(row.map((w) => (w > 0 ? w * Math.log(w) : 0)));
      row.forEach((w, j) => { bars.children[j].style.height = `${100 * w}%`; });
      barsHead.replaceChildren("weights of ", element("span", { className: "token" }, qNames[i]));
      const got = now.output[i].map((x, c) => [x, c]).filter(([x]) => Math.abs(x) >= 0.005).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
      follows.replaceChildren(element("b", { className: "token" }, qNames[i]), ": its weights sum to ",
        isOne(total) ? "1" : element("span", { className: "warn" }, `${totalText(total)}, not 1${total === 0 ? ": nothing to attend, zeros" : ""}`),
        !isOne(total) ? "." : entropy < 0.005 ? ", and one key gets it all." : `, spread like ${short(Math.exp(entropy))} equal shares (entropy ${short(entropy)}).`,
        !state.value_names ? ` Its output is [${now.output[i].map(short).join(", ")}].` : ` It gets ${got.length ? got.slice(0, 4).map(([x, c]) => `${values[c]} ${short(x)}`).join(", ") + (got.length > 4 ? " and more" : "") : "nothing"}.`);
    }

    function tables() {
      const table = (caption, corner, rowNames, columns, rows) => ({ caption, columns: [corner, ...columns], rows: rowNames.map((name, i) => [name, ...rows[i]]) });
      const note = scoreName.textContent + (mask.flat().every(Boolean) ? "" : ` (${kind} mask${after ? ", forbidden weights put to 0 after the softmax" : ""})`);
      return [
        table("Q, a row for each query", "query", qNames, features, q), table("K, a row for each key", "key", kNames, features, k),
        table(`Scores: ${note}`, "query", qNames, kNames, now.scores),
        table("Weights: softmax of each row", "query", qNames, [...kNames, "sum"], now.weights.map((row) => [...row, sum(row)])),
        table("V, a row for each key", "key", kNames, values, v), table("Output: weights · V", "query", qNames, values, now.output),
      ];
    }

    let seen = 0;
    layout();
    onTheme(() => draw());
    new ResizeObserver(oncePerFrame(() => {
      if (Math.abs(root.clientWidth - seen) < 2) return;
      seen = root.clientWidth;
      layout();
    })).observe(root);
  },
};
