// d_k from 1 to 1024, with and without 1/√d_k: spread of the scores, weights of a query, gradient.

const CSS = `
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(210px, 100%), 1fr)); gap: 16px 22px; margin: 12px 0 4px; }
figure { margin: 0; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: 4px; }
svg { width: 100%; height: auto; display: block; overflow: visible; }
svg text { font: 11px var(--font); fill: var(--faint); font-variant-numeric: tabular-nums; }
.on { --tint: var(--good); } .off { --tint: var(--warm); }
.area { fill: var(--tint); fill-opacity: .3; stroke: var(--tint); stroke-width: 1.6; stroke-linejoin: round; }
.off .area, .off .line { stroke-dasharray: 6 3; }
.off .area { fill-opacity: .16; }
.bar { fill: var(--tint); fill-opacity: .75; }
.off .bar { fill-opacity: .3; stroke: var(--tint); stroke-width: 1; stroke-dasharray: 3 2; }
.line { fill: none; stroke: var(--tint); stroke-width: 2; }
.dot { fill: var(--tint); stroke: var(--paper); stroke-width: 1.5; }
.axis { stroke: var(--faint); stroke-width: .8; } .grid { stroke: var(--line); stroke-width: .7; }
.facts { margin-top: 4px; display: grid; gap: 1px; }
.facts div::before, .swatch::before { content: ""; display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-inline-end: 6px; background: var(--tint); }
.facts b { color: var(--ink); }
.swatch[aria-pressed="true"] { background: var(--raised); color: var(--ink); border-color: var(--tint); }
.swatch[aria-pressed="false"] { color: var(--faint); border-style: dashed; }
.swatch[aria-pressed="false"]::before { opacity: .25; }
input[type="range"] { width: min(260px, 48vw); }
`;

const H = 170, LEFT = 34, BASE = H - 32, TOP = 6;
const NAMES = { off: "as they are", on: "divided by √d_k" };
const KINDS = Object.keys(NAMES);
const STEPS = 40; // of the slider: d_k = 2^(step / 4), rounded
const widthAt = (step) => Math.round(2 ** (step / 4));

function softmax(scores) {
  const top = Math.max(...scores);
  const raised = scores.map((s) => Math.exp(s - top));
  const total = raised.reduce((a, b) => a + b, 0);
  return raised.map((r) => r / total);
}

const entropy = (p) => -p.reduce((sum, share) => sum + (share > 0 ? share * Math.log(share) : 0), 0);

// Frobenius norm of diag(p) − p pᵀ.
function jacobianNorm(p) {
  const squares = p.reduce((sum, x) => sum + x * x, 0);
  const cubes = p.reduce((sum, x) => sum + x * x * x, 0);
  return Math.sqrt(Math.max(0, squares - 2 * cubes + squares * squares));
}

const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;

export default {
  async render({ model, el }) {
    const state = model.get("state");
    const { q, k } = await unpack(model);
    const [queries, widest] = q.shape;
    const keys = k.shape[0];
    const [qs, ks] = [decode(q), decode(k)];

    // Scores at every width of the slider, from running sums: sums[step][query][key].
    const running = Array.from({ length: queries }, () => new Array(keys).fill(0));
    const sums = [];
    for (let step = 0, d = 0; step <= STEPS; step++) {
      for (; d < Math.min(widest, widthAt(step)); d++) {
        for (let i = 0; i < queries; i++) {
          for (let j = 0; j < keys; j++) running[i][j] += qs[i * widest + d] * ks[j * widest + d];
        }
      }
      sums.push(running.map((row) => [...row]));
    }
    const scoresAt = (step, scaled) => {
      const by = scaled ? Math.sqrt(widthAt(step)) : 1;
      return sums[step].map((row) => row.map((score) => score / by));
    };
    const curve = (scaled) => sums.map((_, step) => mean(scoresAt(step, scaled).map((row) => jacobianNorm(softmax(row)))));
    const norms = { on: curve(true), off: curve(false) };

    const { root, say } = frame(el, { css: CSS, label: state.title });
    let step = Math.round(4 * Math.log2(state.d_k)), row = 0;
    const shown = new Set(KINDS);
    let W = 240; // of a picture, in pixels as they are seen: letters stay as large as letters are

    const width = slider("d_k", { min: 0, max: STEPS, value: step, text: (s) => String(widthAt(s)),
      onInput: (value) => { step = value; draw(); } });
    const switches = KINDS.map((kind) => button(NAMES[kind], () => {
      if (!shown.delete(kind)) shown.add(kind);
      draw();
    }, { className: `swatch ${kind}` }));
    const next = button("another query", () => { row = (row + 1) % queries; draw(); });
    const panel = (caption, label) => {
      const picture = svg("svg", { role: "img", "aria-label": label });
      return { picture, node: element("figure", {}, element("figcaption", {}, caption), picture, element("div", { className: "facts faint number" })) };
    };
    const spread = panel("How far do the scores spread?", "histograms of the scores");
    const shares = panel("Who gets attention?", "one query's weights");
    const slope = panel("Do the weights still move?", "norm of the Jacobian over d_k");
    root.append(element("p", { className: "title" }, state.title),
      element("div", { className: "row", style: { margin: "10px 0 0" } }, width,
        element("div", { className: "row", role: "group", "aria-label": "scores", style: { gap: "6px" } }, element("span", { className: "faint" }, "scores"), ...switches), next),
      element("div", { className: "panels" }, spread.node, shares.node, slope.node));

    const line = (x1, y1, x2, y2, name = "axis") => svg("line", { x1, y1, x2, y2, class: name });
    const label = (text, x, y, anchor = "middle") => svg("text", { x, y, "text-anchor": anchor }, text);
    const visible = () => KINDS.filter((kind) => shown.has(kind));
    const facts = ({ node }, words) => node.lastChild.replaceChildren(
      ...visible().map((kind) => element("div", { className: kind }, ...words(kind).map((part, i) => (i % 2 ? element("b", {}, part) : part)))));
    // The axis up from 0 to `top`, with its ticks and their numbers; gives the height of a value.
    function axes({ picture }, top, ticks, write, ...more) {
      const y = (value) => BASE - value / top * (BASE - TOP);
      picture.setAttribute("viewBox", `0 0 ${W} ${H}`);
      picture.replaceChildren(...ticks.flatMap((tick) => [line(LEFT, y(tick), W, y(tick), tick ? "grid" : "axis"), label(write(tick), LEFT - 5, y(tick) + 3.5, "end")]), ...more);
      return y;
    }
    const layer = (kind, ...nodes) => svg("g", { class: kind }, ...nodes);

    // Both histograms over one axis, as wide as the unscaled scores need; each as high as it is.
    function drawSpread(now) {
      const widest = Math.max(...now.off.flat().map(Math.abs), ...now.on.flat().map(Math.abs));
      const reach = [4, 8, 16, 32, 64, 128, 256].find((size) => size >= widest) ?? widest;
      const x = (score) => LEFT + (score + reach) / (2 * reach) * (W - LEFT);
      const half = reach / 2;
      const y = axes(spread, 1, [0], () => "", ...[-reach, -half, 0, half, reach].flatMap((tick) => [
        line(x(tick), TOP, x(tick), BASE, "grid"), label(signed(tick), x(tick), BASE + 13)]), label("score", x(0), H - 3));
      const spreads = Object.fromEntries(KINDS.map((kind) => {
        const all = now[kind].flat(), middle = mean(all);
        return [kind, Math.sqrt(mean(all.map((score) => (score - middle) ** 2)))];
      }));
      for (const kind of visible()) {
        const all = now[kind].flat(), bin = spreads[kind] / 2; // bins of half a standard deviation, for both
        const counts = new Map();
        for (const score of all) counts.set(Math.round(score / bin), (counts.get(Math.round(score / bin)) ?? 0) + 1);
        const most = Math.max(...counts.values()), [low, high] = [Math.min(...counts.keys()), Math.max(...counts.keys())];
        const tops = Array.from({ length: high - low + 1 }, (_, i) => [low + i, 0.94 * (counts.get(low + i) ?? 0) / most]);
        const path = tops.map(([i, share]) => `L${x((i - 0.5) * bin)} ${y(share)}L${x((i + 0.5) * bin)} ${y(share)}`).join("");
        spread.picture.append(layer(kind, svg("path", { class: "area", d: `M${x((low - 0.5) * bin)} ${BASE}${path}L${x((high + 0.5) * bin)} ${BASE}` })));
      }
      facts(spread, (kind) => ["standard deviation ", digits(spreads[kind])]);
      return spreads;
    }

    // The weights of one query, a pair of bars for each key.
    function drawShares(now) {
      const weights = Object.fromEntries(KINDS.map((kind) => [kind, softmax(now[kind][row])]));
      const every = (W - LEFT) / keys;
      const y = axes(shares, 1, [0, 0.5, 1], (tick) => `${100 * tick}%`, label(`the ${keys} keys of query ${row}`, (LEFT + W) / 2, H - 3),
        ...[0, keys - 1].map((j) => label(String(j), LEFT + (j + 0.5) * every, BASE + 13)));
      for (const kind of visible()) {
        const [from, wide] = kind === "off" ? [0.06, 0.88] : [0.24, 0.52]; // the narrow bar stands in the wide one
        shares.picture.append(layer(kind, ...weights[kind].map((p, j) => svg("rect", { class: "bar", x: LEFT + (j + from) * every, width: wide * every, y: y(p), height: BASE - y(p) }))));
      }
      facts(shares, (kind) => ["largest ", percent(Math.max(...weights[kind])), ", entropy ", digits(entropy(weights[kind])), ` of ${digits(Math.log(keys))}`]);
      return weights;
    }

    function drawSlope() {
      const most = Math.max(...norms.on, ...norms.off), unit = most > 0.5 ? 0.2 : 0.1;
      const ticks = Array.from({ length: Math.floor(1.08 * most / unit) + 1 }, (_, i) => i * unit);
      const x = (s) => LEFT + s / STEPS * (W - LEFT - 8);
      const y = axes(slope, 1.08 * most, ticks, (tick) => (tick ? tick.toFixed(1) : "0"),
        ...[0, 2, 4, 6, 8, 10].map((power) => label(String(2 ** power), x(4 * power), BASE + 13)), label("d_k", (LEFT + W) / 2, H - 3), line(x(step), TOP, x(step), BASE));
      for (const kind of visible()) {
        slope.picture.append(layer(kind, svg("path", { class: "line", d: norms[kind].map((norm, s) => `${s ? "L" : "M"}${x(s)} ${y(norm)}`).join("") }),
          svg("circle", { class: "dot", cx: x(step), cy: y(norms[kind][step]), r: 5 })));
      }
      facts(slope, (kind) => ["norm of the Jacobian ", digits(norms[kind][step])]);
    }

    const now = () => ({ on: scoresAt(step, true), off: scoresAt(step, false) });
    const follow = asTable(root, () => {
      const scores = now(), weights = (kind) => softmax(scores[kind][row]);
      const heads = (word) => KINDS.map((kind) => `${word}, ${NAMES[kind]}`);
      const [off, on] = KINDS.map(weights);
      const spreadAt = (s, scaled) => { const all = scoresAt(s, scaled).flat(), middle = mean(all); return Math.sqrt(mean(all.map((x) => (x - middle) ** 2))); };
      return [
        { caption: `d_k = ${widthAt(step)}: scores and weights of query ${row}`, columns: ["key", ...heads("score"), ...heads("weight")],
          rows: off.map((p, j) => [String(j), scores.off[row][j], scores.on[row][j], p, on[j]]) },
        { caption: `All ${queries} queries and ${keys} keys, d_k by d_k`, columns: ["d_k", ...heads("standard deviation of the scores"), ...heads("norm of the Jacobian")],
          rows: [...new Set([...Array.from({ length: 11 }, (_, i) => 4 * i), step])].sort((a, b) => a - b)
            .map((s) => [`${widthAt(s)}${s === step ? " (here)" : ""}`, spreadAt(s, false), spreadAt(s, true), norms.off[s], norms.on[s]]) },
      ];
    });

    function draw() {
      const scores = now();
      KINDS.forEach((kind, i) => switches[i].setAttribute("aria-pressed", String(shown.has(kind))));
      const spreads = drawSpread(scores), weights = drawShares(scores);
      drawSlope();
      say(`d_k ${widthAt(step)}. ${visible().map((kind) => `Scores ${NAMES[kind]}: they spread ${digits(spreads[kind])}, the largest weight of query ${row} is `
        + `${percent(Math.max(...weights[kind]))}, norm of the Jacobian ${digits(norms[kind][step])}`).join(". ")}`, 400);
      follow();
    }
    new ResizeObserver(oncePerFrame(() => {
      const { clientWidth } = spread.node;
      if (clientWidth && Math.abs(clientWidth - W) > 1) { W = clientWidth; draw(); }
    })).observe(spread.node);
    draw();
  },
};
