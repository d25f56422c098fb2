// Positions as sines and cosines: the barcode, two positions to drag, one pair as a clock, and the
// dot product against the offset. All of it is worked out here.

const CSS = `
.formula { margin: 2px 0 10px; display: flex; flex-wrap: wrap; gap: 0 18px; }
.scale { display: inline-flex; gap: 6px; align-items: center; color: var(--faint); font-size: 11px; }
.scale i { width: 44px; height: 9px; border-radius: 3px; }
.formula sup, .facts sup { font-size: .75em; line-height: 0; }
.plot { position: relative; outline-offset: 3px; border-radius: 4px; }
.plot canvas { position: absolute; image-rendering: pixelated; border-radius: 2px; }
svg { display: block; overflow: visible; position: relative; user-select: none; -webkit-user-select: none; touch-action: pan-y; }
svg text { font: 11px var(--font); fill: var(--faint); font-variant-numeric: tabular-nums; }
svg .strong { fill: var(--ink); font-weight: 650; }
.hit { fill: transparent; }
.grab { cursor: ew-resize; } .pick { cursor: ns-resize; } .both { cursor: grab; }
.case { fill: none; stroke: #fff; stroke-width: 4; }
.a { --hand: var(--accent); } .b { --hand: var(--warm); }
.column { fill: none; stroke: var(--hand); stroke-width: 2; }
.flag { fill: var(--hand); }
svg .letter { fill: var(--paper); font-weight: 700; font-size: 12px; text-anchor: middle; }
.bridge { fill: none; stroke: var(--faint); }
.pill { fill: var(--raised); stroke: var(--faint); }
.both:hover .pill { stroke: var(--accent); }
.pair { fill: none; stroke: #fff; stroke-width: 1.5; }
.pairdark { fill: none; stroke: #000; stroke-width: 3; stroke-opacity: .55; }
.bar { fill: var(--good); opacity: .5; } .bar.now { opacity: 1; }
.axis { stroke: var(--line); }
.curve { fill: none; stroke: var(--good); stroke-width: 2; stroke-linejoin: round; }
.mark { stroke: var(--faint); stroke-dasharray: 3 3; }
.dot { fill: var(--good); stroke: var(--paper); stroke-width: 2; }
.rim { fill: var(--raised); stroke: var(--line); }
.tick { fill: var(--faint); opacity: .7; }
.wedge { fill: var(--good); opacity: .22; }
.hand { stroke: var(--hand); stroke-width: 3; stroke-linecap: round; }
.tip { fill: var(--hand); stroke: var(--paper); stroke-width: 1.5; }
.result { margin: 10px 0 2px; font-size: 14px; }
.result b { font-size: 16px; }
.moves { margin: 6px 0 12px; }
.below { display: grid; grid-template-columns: 168px minmax(180px, 1fr) minmax(0, 1.6fr); gap: 6px 18px; align-items: start;
  border-top: 1px solid var(--line); padding-top: 10px; }
@container (max-width: 620px) {
  .below { grid-template-columns: 150px minmax(0, 1fr); }
  .below .wide { grid-column: 1 / -1; }
}
.below h3 { font-size: 13px; font-weight: 650; margin: 0 0 4px; }
.clock { width: 100%; height: auto; }
.facts { min-width: 0; }
.facts p { margin: 0 0 4px; }
.facts b { color: var(--ink); }
table { border-collapse: collapse; margin: 4px 0 6px; font-variant-numeric: tabular-nums; }
th { font-weight: 400; text-align: end; padding: 0 10px 0 0; }
td { color: var(--ink); text-align: end; padding: 0 10px 0 0; }
th.a, th.b { color: var(--hand); font-weight: 650; }
.field.a > span, .field.b > span { color: var(--hand); font-weight: 650; }
.field.a input { accent-color: var(--accent); } .field.b input { accent-color: var(--warm); }
input[type="range"] { width: min(100px, 34vw); }
`;

const BASES = [10, 100, 1000, 10000, 100000];
const HEAD = 22, TALL = 256, FOOT = 44; // pixels of the barcode's flags, stripes, axis
const CURVE = 170;

export default {
  render({ model, el }) {
    const state = model.get("state");
    const { root, say } = frame(el, { css: CSS, label: state.title });
    const bases = [...new Set([...BASES, state.base])].sort((x, y) => x - y);
    let { tokens, d_model: d, base } = state;
    let a = Math.round(0.3 * tokens), b = a + Math.max(1, Math.round(tokens / 10)), pair = Math.min(3, d / 2 - 1);
    let frequencies = [];

    const spaced = (x) => x.toLocaleString("en").replaceAll(",", "\u202f"); // 10 000
    const dot = (offset) => frequencies.reduce((sum, f) => sum + Math.cos(f * offset), 0);
    const low = () => Math.min(a, b), apart = () => Math.abs(b - a);

    // ---- what can be moved ----
    function put(which, position) {
      if (which === "a") a = clamp(position, 0, tokens - 1);
      else b = clamp(position, 0, tokens - 1);
      draw();
    }
    function moveBoth(to) {
      const by = clamp(to, 0, tokens - 1 - apart()) - low();
      [a, b] = [a + by, b + by];
      draw(true);
    }
    function setOffset(offset) { // b goes there; where there is no room, both do
      a = clamp(a, Math.max(0, -offset), tokens - 1 - Math.max(0, offset));
      b = a + offset;
      draw();
    }
    function setTable() { // after d_model, base or the length has changed
      pair = Math.min(pair, d / 2 - 1);
      const over = Math.max(0, a - tokens + 1, b - tokens + 1); // a shorter length pushes both
      [a, b] = [Math.max(0, a - over), Math.max(0, b - over)];
      paint();
      draw();
    }

    // ---- controls ----
    const width = slider("d_model", { min: 4, max: 128, step: 2, value: d, text: String, onInput: (x) => { d = x; setTable(); } });
    const bottom = slider("base", { min: 0, max: bases.length - 1, value: bases.indexOf(base), text: (i) => spaced(bases[i]),
      onInput: (i) => { base = bases[i]; setTable(); } });
    const length = slider("length", { min: 8, max: 256, value: tokens, text: String, onInput: (x) => { tokens = x; setTable(); } });
    const ofA = slider("position a", { min: 0, max: tokens - 1, value: a, text: String, onInput: (x) => put("a", x) });
    const ofB = slider("position b", { min: 0, max: tokens - 1, value: b, text: String, onInput: (x) => put("b", x) });
    ofA.classList.add("a");
    ofB.classList.add("b");
    const both = slider("move both", { min: 0, max: tokens - 1, value: low(), text: () => `${a}, ${b}`, onInput: moveBoth });
    const pairs = slider("pair", { min: 0, max: d / 2 - 1, value: pair, text: String, onInput: (x) => { pair = x; draw(); } });

    const sup = (text) => element("sup", {}, text);
    const formula = element("p", { className: "formula faint" },
      element("span", {}, "PE(pos, 2i) = sin(pos / base", sup("2i / d_model"), ")"),
      element("span", {}, "PE(pos, 2i + 1) = cos(pos / base", sup("2i / d_model"), ")"));
    const scale = element("span", { className: "scale", "aria-hidden": "true" }, "−1",
      element("i", { style: { background: `linear-gradient(90deg, ${VIRIDIS.split(" ").map((stop) => `#${stop}`).join(", ")})` } }), "1");
    formula.append(scale);
    const canvas = element("canvas", { role: "img", "aria-label": "the encoding as colours, positions across, dimensions down" });
    const over = svg("svg");
    const plot = element("div", { className: "plot", tabIndex: 0, role: "application", "aria-roledescription": "barcode",
      "aria-label": "Positions across, dimensions down. Left and right move b, with Shift both positions; up and down choose the pair." }, canvas, over);
    const result = element("p", { className: "result number" });
    const clock = svg("svg", { class: "clock", viewBox: "-82 -82 164 164", role: "img", "aria-label": "the pair as a clock with a hand for each position" });
    const facts = element("div", { className: "facts faint" });
    const chart = svg("svg", { role: "img", "aria-label": "dot product against the offset", height: CURVE, class: "grab" });
    const chartBox = element("div", { className: "wide" }, element("h3", {}, "Dot product against the offset"), chart);
    root.append(element("p", { className: "title" }, state.title), formula,
      element("div", { className: "row", style: { "margin-bottom": "8px" } }, width, bottom, length), plot, result,
      element("div", { className: "row moves" }, ofA, ofB, both),
      element("div", { className: "below" }, element("div", {}, element("h3", {}, "One pair as a clock"), clock),
        element("div", {}, pairs, facts), chartBox));

    // ---- the barcode ----
    // One pixel a number; the browser makes them larger.
    function paint() {
      frequencies = Array.from({ length: d / 2 }, (_, i) => base ** (-2 * i / d));
      [canvas.width, canvas.height] = [tokens, d];
      const context = canvas.getContext("2d");
      const image = context.createImageData(tokens, d);
      const out = new Uint32Array(image.data.buffer), table = colorTable(VIRIDIS);
      for (let row = 0, i = 0; row < d; row++) {
        const wave = row % 2 ? Math.cos : Math.sin;
        for (let pos = 0; pos < tokens; pos++) out[i++] = table[Math.round((wave(pos * frequencies[row >> 1]) + 1) / 2 * 1023)];
      }
      context.putImageData(image, 0, 0);
      line = "";
    }

    let place; // of everything, in pixels
    function layout() {
      const room = Math.max(260, root.clientWidth - 34);
      const bars = room > 560 ? 110 : 58, left = 40;
      place = { left, bars, w: room - left - bars - 16, width: room, chart: Math.max(220, chartBox.clientWidth) };
      setSize(over, room, HEAD + TALL + FOOT);
      Object.assign(canvas.style, { left: `${left}px`, top: `${HEAD}px`, width: `${place.w}px`, height: `${TALL}px` });
      line = "";
    }
    function setSize(node, w, h) {
      for (const [name, value] of Object.entries({ width: w, height: h, viewBox: `0 0 ${w} ${h}` })) node.setAttribute(name, value);
    }
    const text = (words, x, y, anchor = "middle", name = "") => svg("text", { x, y, "text-anchor": anchor, class: name }, words);
    const rect = (name, x, y, w, h, more = {}) => svg("rect", { class: name, x, y, width: Math.max(0, w), height: Math.max(0, h), ...more });

    function drawOver() {
      const { left, w, bars, width: all } = place;
      const cw = w / tokens, ch = TALL / d, bottomEdge = HEAD + TALL;
      const top = HEAD + 2 * pair * ch, middle = top + ch;
      const x = (position) => left + (position + 0.5) * cw;
      const column = (which, position) => {
        const wide = Math.max(cw, 2);
        const box = [x(position) - wide / 2 - 2, HEAD - 2, wide + 4, TALL + 4]; // around the numbers, not on them
        return svg("g", { class: which }, rect("case", ...box), rect("column", ...box));
      };
      const flag = (which, position, isLeft) => { // beside each other even on one position
        const at = x(position) + (isLeft ? -5 : 5);
        return svg("g", { class: `${which} grab` }, rect("flag", at - 8, 1, 16, 17, { rx: 4 }), text(which, at, 14, "middle", "letter"));
      };

      // every pair's share of the dot product, beside its rows
      const zero = all - bars / 2, half = bars / 2;
      const shares = frequencies.map((f, i) => {
        const share = Math.cos(f * (b - a)) * half, tall = 2 * ch;
        return rect(i === pair ? "bar now" : "bar", zero + Math.min(0, share), HEAD + i * tall + (tall > 4 ? 1 : 0), Math.abs(share), tall - (tall > 4 ? 2 : 0));
      });
      const dims = `${2 * pair}, ${2 * pair + 1}`;
      const label = clamp(middle + 4, HEAD + 10, bottomEdge - 1);
      const ends = [[0, HEAD + 10], [d - 1, bottomEdge - 1]].filter(([, y]) => Math.abs(y - label) > 14)
        .map(([dim, y]) => text(String(dim), left - 8, y, "end"));
      const name = `b − a = ${signed(b - a)}`, pillWide = 84;
      const pillAt = clamp((x(a) + x(b)) / 2, left + pillWide / 2, left + w - pillWide / 2);
      const [x1, x2] = [x(low()), x(low() + apart())];

      over.replaceChildren(
        rect("hit grab", left, 0, w, bottomEdge), rect("hit pick", 0, HEAD, left, TALL),
        text("dim", left - 8, 14, "end"), ...ends, text(dims, left - 8, label, "end", "strong"),
        rect("pairdark", left - 1, top - 1, w + 2, 2 * ch + 2), rect("pair", left - 1, top - 1, w + 2, 2 * ch + 2),
        column("a", a), column("b", b), flag("a", a, a <= b), flag("b", b, a > b),
        svg("g", { class: "both" },
          svg("path", { class: "bridge", d: `M${x1} ${bottomEdge + 4}v6H${x2}v-6` }),
          rect("pill", pillAt - pillWide / 2, bottomEdge + 8, pillWide, 18, { rx: 9 }),
          text(name, pillAt, bottomEdge + 21, "middle", "strong")),
        text("0", x(0), bottomEdge + 40), text("position", left + w / 2, bottomEdge + 40), text(String(tokens - 1), x(tokens - 1), bottomEdge + 40),
        svg("line", { class: "axis", x1: zero, x2: zero, y1: HEAD - 2, y2: bottomEdge + 2 }), ...shares,
        text("−1", zero - half, bottomEdge + 14), text("0", zero, bottomEdge + 14), text("1", zero + half, bottomEdge + 14),
        text(bars > 80 ? "share of a · b" : "share", zero, bottomEdge + 40), text(bars > 80 ? "cos(ω · (b − a))" : "cos", zero, 14));
    }

    // ---- the clock: sine to the right, cosine up, so a hand starts at twelve and turns clockwise ----
    function drawClock() {
      const f = frequencies[pair], R = 74;
      const [sa, ca, sb, cb] = [Math.sin(f * a), Math.cos(f * a), Math.sin(f * b), Math.cos(f * b)];
      const hand = (which, s, c) => svg("g", { class: which },
        svg("line", { class: "hand", x1: 0, y1: 0, x2: R * s, y2: -R * c }), svg("circle", { class: "tip", cx: R * s, cy: -R * c, r: 6 }));
      const ticks = Array.from({ length: tokens }, (_, pos) =>
        svg("circle", { class: "tick", cx: R * Math.sin(f * pos), cy: -R * Math.cos(f * pos), r: 1.3 }));
      const turned = f * (b - a) - 2 * Math.PI * Math.round(f * (b - a) / (2 * Math.PI)); // the shorter way round
      clock.replaceChildren(svg("circle", { class: "rim", cx: 0, cy: 0, r: R }),
        svg("path", { class: "wedge", d: `M0 0L${R / 2 * sa} ${-R / 2 * ca}A${R / 2} ${R / 2} 0 0 ${turned > 0 ? 1 : 0} ${R / 2 * sb} ${-R / 2 * cb}Z` }),
        ...ticks, hand("a", sa, ca), hand("b", sb, cb));

      const bold = (of, words) => element("b", { className: "number", "data-of": of }, words);
      const row = (which, pos, ...numbers) => element("tr", {}, element("th", { scope: "row", className: which }, `${which} = ${pos}`),
        ...numbers.map((number) => element("td", {}, digits(number))));
      facts.replaceChildren(
        element("p", { className: "number" }, `ω = 1 / ${spaced(base)}`, sup(`${2 * pair}/${d}`), " = ", bold("omega", digits(f))),
        element("p", {}, "once round in ", bold("period", digits(2 * Math.PI / f)), " positions"),
        element("table", {}, element("tr", {}, element("td"), element("th", { scope: "col" }, `${2 * pair}: sin`), element("th", { scope: "col" }, `${2 * pair + 1}: cos`)),
          row("a", a, sa, ca), row("b", b, sb, cb)),
        element("p", { className: "number" }, `sin·sin + cos·cos = cos(${signed(b - a)} ω) = `, bold("share", digits(Math.cos(f * (b - a)))),
          ", this pair's share"));
    }

    // ---- the curve ----
    let line = "";
    const edge = 34;
    function drawCurve() {
      const room = place.chart, reach = tokens - 1, floor = CURVE - 22;
      const least = Math.min(0, line ? line.least : (line = trace(reach)).least);
      const x = (offset) => edge + (offset + reach) / (2 * reach) * (room - edge - 8);
      const y = (value) => 10 + (d / 2 - value) / (d / 2 - least) * (floor - 10);
      const now = dot(b - a);
      setSize(chart, room, CURVE);
      chart.replaceChildren(rect("hit", 0, 0, room, CURVE),
        svg("line", { class: "axis", x1: edge, x2: room - 8, y1: y(0), y2: y(0) }), svg("line", { class: "axis", x1: x(0), x2: x(0), y1: 6, y2: floor }),
        text(String(d / 2), edge - 6, y(d / 2) + 4, "end"), text("0", edge - 6, y(0) + 4, "end"),
        svg("path", { class: "curve", d: line.points.map(([o, v], i) => `${i ? "L" : "M"}${x(o).toFixed(1)} ${y(v).toFixed(1)}`).join("") }),
        svg("line", { class: "mark", x1: x(b - a), x2: x(b - a), y1: y(now), y2: floor + 3 }),
        svg("circle", { class: "dot", cx: x(b - a), cy: y(now), r: 6 }),
        text(`−${reach}`, edge, CURVE - 5, "start"), text(`+${reach}`, room - 8, CURVE - 5, "end"),
        text(`offset ${signed(b - a)}`, clamp(x(b - a), edge + 66, room - 74), CURVE - 5, "middle", "strong"));
      return now;
    }
    function trace(reach) {
      const step = tokens > 128 ? 0.5 : 0.25;
      const points = Array.from({ length: Math.round(2 * reach / step) + 1 }, (_, i) => [i * step - reach, dot(i * step - reach)]);
      return { points, least: Math.min(...points.map(([, value]) => value)) };
    }

    // ---- pointer and keys ----
    function drag(node, begin) { // begin(x, y, event) gives what to do as the pointer moves
      node.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        const box = () => node.getBoundingClientRect();
        const at = ({ clientX, clientY }) => [clientX - box().left, clientY - box().top];
        const act = begin(...at(event), event);
        if (!act) return;
        act(...at(event));
        node.setPointerCapture(event.pointerId);
        const move = (now) => act(...at(now));
        node.addEventListener("pointermove", move);
        for (const end of ["pointerup", "pointercancel"]) node.addEventListener(end, () => node.removeEventListener("pointermove", move), { once: true });
      });
    }
    drag(over, (x0, y0, event) => {
      const { left, w } = place;
      const position = (x) => Math.floor((x - left) / w * tokens);
      const inside = x0 >= left - 14 && x0 <= left + w + 14;
      if (x0 < left - 14 && y0 >= HEAD && y0 <= HEAD + TALL) return (_, y) => { pair = clamp(Math.floor((y - HEAD) / TALL * d / 2), 0, d / 2 - 1); draw(); };
      if (!inside) return null;
      const grip = position(x0) - low();
      if (event.shiftKey || event.target.closest(".both")) return (x) => moveBoth(position(x) - grip);
      if (y0 > HEAD + TALL) return null;
      const named = ["a", "b"].find((name) => event.target.closest(`.${name}`));
      const which = named ?? (Math.abs(position(x0) - a) < Math.abs(position(x0) - b) ? "a" : "b");
      const from = named ? position(x0) - (which === "a" ? a : b) : 0; // a flag stands beside its column
      return (x) => put(which, position(x) - from);
    });
    drag(chart, () => (x) => {
      const reach = tokens - 1;
      setOffset(clamp(Math.round((x - edge) / (place.chart - edge - 8) * 2 * reach) - reach, -reach, reach));
    });
    plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (by && event.shiftKey) moveBoth(low() + by);
      else if (by) put("b", b + by);
      else if (down) { pair = clamp(pair + down, 0, d / 2 - 1); draw(); } else return;
      event.preventDefault();
    });

    // ---- as a table ----
    const follow = asTable(root, () => [
      { caption: `Positions a = ${a} and b = ${b}, pair by pair; PE(a) · PE(b) = ${digits(dot(b - a))}, the sum of the shares`,
        columns: ["dimensions", "ω", "positions once round", `sin at ${a}`, `cos at ${a}`, `sin at ${b}`, `cos at ${b}`, "share, cos(ω (b − a))"],
        rows: frequencies.map((f, i) => [`${2 * i}, ${2 * i + 1}`, f, 2 * Math.PI / f, Math.sin(f * a), Math.cos(f * a), Math.sin(f * b), Math.cos(f * b), Math.cos(f * (b - a))]) },
      { caption: "Dot product against the offset; to the other side it is the same", columns: ["offset", "dot product"],
        rows: Array.from({ length: tokens }, (_, offset) => [`${offset}${offset === apart() ? " (here)" : ""}`, dot(offset)]) },
    ]);

    // ---- all of it ----
    function draw(together = false) {
      for (const [control, most, value] of [[ofA, tokens - 1, a], [ofB, tokens - 1, b], [both, tokens - 1 - apart(), low()], [pairs, d / 2 - 1, pair]]) {
        control.control.max = most;
        control.set(value);
      }
      drawOver();
      drawClock();
      const now = drawCurve();
      const bold = (of, words) => element("b", { "data-of": of }, words);
      result.replaceChildren(`PE(${a}) · PE(${b}) = `, bold("dot", digits(now)),
        element("span", { className: "faint" }, ` of at most ${d / 2}: the sum of cos(ω · `), bold("offset", signed(b - a)),
        element("span", { className: "faint" }, `) over ${d / 2} pairs. Only the offset is in it.`));
      say(`a ${a}, b ${b}, offset ${signed(b - a)}: dot product ${together ? "still " : ""}${digits(now)} of ${d / 2}. `
        + `Pair ${pair} turns once in ${digits(2 * Math.PI / frequencies[pair])} positions`, 350);
      follow();
    }
    let seen = 0;
    new ResizeObserver(oncePerFrame(() => {
      if (root.clientWidth === seen) return;
      seen = root.clientWidth;
      layout();
      draw();
    })).observe(root);
    layout();
    setTable();
  },
};
