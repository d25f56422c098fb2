// d_k from 1 to 1024, with and without 1/√d_k: spread of the scores, weights of a query, gradient.

const CSS = `
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 16px; margin: 12px 0 4px; }
figure { margin: 0; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: 2px; }
svg { width: 100%; max-width: 280px; height: auto; display: block; overflow: visible; }
svg text { font: 10px var(--font); fill: var(--faint); }
.bar { fill: var(--accent); }
.other { fill: none; stroke: var(--faint); stroke-width: 1; stroke-dasharray: 3 2; }
.on, .off { fill: none; stroke-width: 2; }
.on { stroke: var(--good); } .off { stroke: var(--warm); stroke-dasharray: 6 3; }
.dot { stroke: var(--paper); stroke-width: 1.5; }
.dot.on { fill: var(--good); stroke-dasharray: none; } .dot.off { fill: var(--warm); stroke-dasharray: none; }
.axis { stroke: var(--line); }
.facts { margin-top: 2px; }
.facts b { color: var(--ink); }
input[type="range"] { width: min(260px, 48vw); }
`;

const W = 220, H = 130, BASE = H - 18;
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
    let step = Math.round(4 * Math.log2(state.d_k)), scaled = true, row = 0;

    const width = slider("d_k", { min: 0, max: STEPS, value: step, text: (s) => String(widthAt(s)),
      onInput: (value) => { step = value; draw(); } });
    const scale = button("divide by √d_k", () => { scaled = !scaled; draw(); });
    const next = button("another query", () => { row = (row + 1) % queries; draw(); });
    const panel = (caption, label) => {
      const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label });
      return { picture, node: element("figure", {}, element("figcaption", {}, caption), picture, element("div", { className: "facts faint number" })) };
    };
    const spread = panel("How far do scores spread?", "histogram of the scores");
    const shares = panel("Who gets attention?", "one query's weights");
    const slope = panel("How much do the weights move with a score?", "norm of the Jacobian over d_k");
    root.append(element("p", { className: "title" }, state.title),
      element("div", { className: "row", style: { margin: "10px 0 0" } }, width, scale, next),
      element("div", { className: "panels" }, spread.node, shares.node, slope.node));

    const line = (x1, y1, x2, y2) => svg("line", { x1, y1, x2, y2, class: "axis" });
    const label = (text, x, y, anchor = "middle") => svg("text", { x, y, "text-anchor": anchor }, text);
    const fact = ({ node }, ...parts) => node.lastChild.replaceChildren(
      ...parts.map((part, i) => (i % 2 ? element("b", {}, part) : part)));

    function drawSpread(now) {
      const all = now.flat();
      const reach = 96; // the same axis for every d_k: what grows, is seen to grow
      const bins = new Array(41).fill(0);
      for (const score of all) bins[Math.min(40, Math.max(0, Math.round((score + reach) / (2 * reach) * 40)))]++;
      const most = Math.max(...bins);
      spread.picture.replaceChildren(
        ...bins.map((count, i) => svg("rect", { class: "bar", x: i * W / 41, width: W / 41 - 1, y: BASE - count / most * (BASE - 6), height: count / most * (BASE - 6) })),
        line(0, BASE, W, BASE), label(`−${reach}`, 0, H - 4, "start"), label("0", W / 2, H - 4), label(String(reach), W, H - 4, "end"));
      const middle = mean(all);
      const std = Math.sqrt(mean(all.map((score) => (score - middle) ** 2)));
      fact(spread, "standard deviation ", digits(std));
      return std;
    }

    function drawShares(now, other) {
      const [mine, theirs] = [softmax(now[row]), softmax(other[row])];
      const step = W / keys;
      shares.picture.replaceChildren(
        ...mine.map((p, j) => svg("rect", { class: "bar", x: j * step + 1, width: step - 2, y: BASE - p * (BASE - 6), height: p * (BASE - 6) })),
        ...theirs.map((p, j) => svg("rect", { class: "other", x: j * step + 1, width: step - 2, y: BASE - p * (BASE - 6), height: p * (BASE - 6) })),
        line(0, BASE, W, BASE), label(`${keys} keys; dashed: ${scaled ? "without" : "with"} the scale`, W / 2, H - 4));
      fact(shares, "largest ", percent(Math.max(...mine)), ", entropy ", digits(entropy(mine)), ` of ${digits(Math.log(keys))}`);
      return mine;
    }

    function drawSlope() {
      const top = 1.1 * Math.max(...norms.on, ...norms.off);
      const x = (s) => s / STEPS * W;
      const y = (norm) => BASE - norm / top * (BASE - 6);
      const path = (name) => svg("path", { class: name, d: norms[name].map((norm, s) => `${s ? "L" : "M"}${x(s)} ${y(norm)}`).join("") });
      const now = scaled ? "on" : "off";
      slope.picture.replaceChildren(line(0, BASE, W, BASE), path("on"), path("off"),
        svg("circle", { class: `dot ${now}`, cx: x(step), cy: y(norms[now][step]), r: 5 }),
        label("1", 0, H - 4, "start"), label("d_k", W / 2, H - 4), label("1024", W, H - 4, "end"),
        label("with the scale", W, y(norms.on[STEPS]) - 6, "end"), label("without", W * 0.55, BASE - 12, "end"));
      fact(slope, "norm of the Jacobian ", digits(norms[now][step]));
      return norms[now][step];
    }

    function draw() {
      const now = scoresAt(step, scaled);
      scale.setAttribute("aria-pressed", String(scaled));
      const std = drawSpread(now);
      const mine = drawShares(now, scoresAt(step, !scaled));
      const norm = drawSlope();
      say(`d_k ${widthAt(step)}, ${scaled ? "scaled" : "unscaled"}: scores spread ${digits(std)}, the largest `
        + `weight is ${percent(Math.max(...mine))}, norm of the Jacobian ${digits(norm)}`, 400);
    }
    draw();
  },
};
