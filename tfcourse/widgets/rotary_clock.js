// A query and a key turned by their positions: each pair of numbers is a clock with two hands. What
// each pair adds to the score, their sum, and the score against the distance.

const CSS = `
.formula { margin: 2px 0 10px; }
.q { --hand: var(--accent); } .k { --hand: var(--warm); }
.field.q > span, .field.k > span, .formula b, .name { color: var(--hand); font-weight: 650; }
.field.k input { accent-color: var(--warm); }
input[type="range"] { width: min(110px, 34vw); }
.result { margin: 10px 0 2px; font-size: 14px; overflow-wrap: anywhere; }
.result b { font-size: 16px; }
.result .term { white-space: nowrap; }
.same { margin: 0 0 8px; }
.clocks { display: grid; grid-template-columns: repeat(var(--wide), minmax(0, 1fr)); gap: 12px 10px; margin: 12px 0; justify-items: center; }
@container (max-width: 560px) { .clocks { grid-template-columns: repeat(var(--narrow), minmax(0, 1fr)); } }
figure { margin: 0; min-width: 0; width: 100%; max-width: 190px; text-align: center; line-height: 1.3; }
figcaption { font-weight: 650; }
svg { display: block; overflow: visible; user-select: none; -webkit-user-select: none; }
.clock { width: 100%; height: auto; }
svg text { font: 11px var(--font); fill: var(--faint); font-variant-numeric: tabular-nums; }
svg .strong { fill: var(--ink); font-weight: 650; }
.clock { touch-action: none; cursor: grab; }
.clock:active { cursor: grabbing; }
.rim { fill: var(--raised); stroke: var(--line); }
.wedge { fill: var(--good); opacity: .22; }
.start { stroke: var(--hand); stroke-width: 1.5; stroke-dasharray: 2 4; opacity: .75; }
.reach { stroke: var(--hand); stroke-width: 1; opacity: .55; }
.hand { stroke: var(--hand); stroke-width: 3.5; stroke-linecap: round; }
.tip { fill: var(--hand); stroke: var(--paper); stroke-width: 1.5; }
.track { fill: var(--raised); }
.bar { fill: var(--good); }
.axis { stroke: var(--line); } .zero { stroke: var(--faint); }
.part { font-size: 14px; font-weight: 650; }
.small { font-size: 11px; }
.below { border-top: 1px solid var(--line); padding-top: 10px; }
.below h3 { font-size: 13px; font-weight: 650; margin: 0 0 4px; }
.chart { touch-action: pan-y; cursor: ew-resize; }
.hit { fill: transparent; }
.curve { fill: none; stroke: var(--good); stroke-width: 2; stroke-linejoin: round; }
.mark { stroke: var(--faint); stroke-dasharray: 3 3; }
.dot { fill: var(--good); stroke: var(--paper); stroke-width: 2; }
`;

const TURN = 2 * Math.PI;
const R = 50; // of a clock
const CURVE = 170, EDGE = 44;

export default {
  async render({ model, el }) {
    const { title, base, reach, query, key } = model.get("state");
    const data = await unpack(model);
    const exact = (block) => [...decode(block)].map((x) => Math.round(100 * x) / 100); // Python sent two decimals
    const q = exact(data.q), k = exact(data.k), d = q.length;
    const { root, say } = frame(el, { css: CSS, label: title });

    // Each pair as lengths and first angles of its two hands, and how far a position turns it.
    const pairs = Array.from({ length: d / 2 }, (_, i) => ({
      f: base ** (-2 * i / d),
      q: { size: Math.hypot(q[2 * i], q[2 * i + 1]), angle: Math.atan2(q[2 * i + 1], q[2 * i]) },
      k: { size: Math.hypot(k[2 * i], k[2 * i + 1]), angle: Math.atan2(k[2 * i + 1], k[2 * i]) },
    }));
    const longest = Math.max(...pairs.flatMap((pair) => [pair.q.size, pair.k.size])) || 1;
    const most = Math.max(...pairs.map((pair) => pair.q.size * pair.k.size)) || 1; // that a pair can add
    const at = { q: query, k: key };

    const fixed = (x) => (Math.abs(x) < 5e-4 ? 0 : Math.abs(x)).toFixed(3); // alike, so that they can be added up
    const minus = (x) => (x <= -5e-4 ? "−" : "") + fixed(x);
    const part = (pair, distance) => pair.q.size * pair.k.size * Math.cos(pair.q.angle - pair.k.angle + distance * pair.f);
    const score = (distance) => pairs.reduce((sum, pair) => sum + part(pair, distance), 0);
    const distance = () => at.q - at.k, low = () => Math.min(at.q, at.k);

    // ---- what can be moved ----
    function put(which, position) { at[which] = clamp(position, 0, reach); draw(); }
    function moveBoth(to) {
      const by = clamp(to, 0, reach - Math.abs(distance())) - low();
      at.q += by;
      at.k += by;
      draw(true);
    }
    function setDistance(to) { // the query goes there; where there is no room, the key does too
      at.k = clamp(at.k, Math.max(0, -to), reach - Math.max(0, to));
      at.q = at.k + to;
      draw();
    }

    // ---- controls ----
    const ofQ = slider("query at", { min: 0, max: reach, value: at.q, text: String, onInput: (x) => put("q", x) });
    const ofK = slider("key at", { min: 0, max: reach, value: at.k, text: String, onInput: (x) => put("k", x) });
    const both = slider("move both", { min: 0, max: reach, value: low(), text: () => `${at.q}, ${at.k}`, onInput: moveBoth });
    ofQ.classList.add("q");
    ofK.classList.add("k");

    const name = (which, words) => element("span", { className: `${which} name` }, words);
    const result = element("p", { className: "result number" }), same = element("p", { className: "same faint" });
    const clocks = pairs.map((pair, i) => {
      const picture = svg("svg", { class: "clock", viewBox: "-58 -56 136 112", role: "img", "aria-label": `pair ${i} as a clock` });
      const share = element("div", { className: "part number", "data-part": i });
      drag(picture, (x, y) => turnHand(pair, picture, x, y));
      return { picture, share, node: element("figure", {}, element("figcaption", {}, `pair ${i}`), picture, share,
        element("div", { className: "faint small number" }, `round in ${digits(TURN / pair.f)} positions`)) };
    });
    const grid = element("div", { className: "clocks" }, ...clocks.map(({ node }) => node));
    const columns = (fit) => Math.ceil(pairs.length / Math.ceil(pairs.length / fit)); // rows as even as can be
    grid.style.setProperty("--wide", columns(4));
    grid.style.setProperty("--narrow", columns(pairs.length === 4 ? 2 : pairs.length > 6 ? 4 : 3));
    const chart = svg("svg", { class: "chart", role: "img", "aria-label": "score against the distance", height: CURVE });
    const chartBox = element("div", { className: "below" }, element("h3", {}, "Score against the distance"), chart);
    root.append(element("p", { className: "title" }, title),
      element("p", { className: "formula faint" }, "Pair i of ", name("q", "query"), " and ", name("k", "key"),
        ` turns by position · ${base < 1e7 ? Number(base.toPrecision(7)) : digits(base)}`, element("sup", {}, `−2i / ${d}`), ". Dotted: before the turn. Drag a hand."),
      element("div", { className: "row" }, ofQ, ofK, both), result, same, grid, chartBox);

    // ---- the clocks: the first number to the right, the second up ----
    function drawClock({ picture, share }, pair) {
      const angle = (which) => pair[which].angle + at[which] * pair.f;
      const point = (turned, size) => [size * Math.cos(turned), -size * Math.sin(turned)];
      const line = (name, turned, size) => {
        const [x2, y2] = point(turned, size);
        return svg("line", { class: name, x1: 0, y1: 0, x2, y2 });
      };
      const hand = (which) => {
        const [x, y] = point(angle(which), R);
        return svg("g", { class: which }, line("start", pair[which].angle, R), line("reach", angle(which), R),
          line("hand", angle(which), Math.max(2, R * pair[which].size / longest)), svg("circle", { class: "tip", cx: x, cy: y, r: 4.5 }));
      };
      const between = angle("q") - angle("k");
      const shorter = between - TURN * Math.round(between / TURN);
      const [[x1, y1], [x2, y2]] = [point(angle("k"), R / 2.2), point(angle("q"), R / 2.2)];
      const value = part(pair, distance()), tall = value / most * R;
      picture.replaceChildren(svg("circle", { class: "rim", cx: 0, cy: 0, r: R }),
        svg("path", { class: "wedge", d: `M0 0L${x1} ${y1}A${R / 2.2} ${R / 2.2} 0 0 ${shorter > 0 ? 0 : 1} ${x2} ${y2}Z` }), hand("k"), hand("q"),
        svg("rect", { class: "track", x: 64, y: -R, width: 10, height: 2 * R, rx: 2 }),
        svg("rect", { class: "bar", x: 64, y: Math.min(0, -tall), width: 10, height: Math.abs(tall) }),
        svg("line", { class: "zero", x1: 61, x2: 77, y1: 0, y2: 0 }));
      share.textContent = (value >= 5e-4 ? "+" : "") + minus(value);
      return value;
    }

    // The nearer hand goes with the pointer; as far as it turns, so far its token moves.
    function turnHand(pair, picture, x0, y0) {
      const pointed = (x, y) => {
        const box = picture.getBoundingClientRect(), unit = box.width / 136;
        return Math.atan2(-(y / unit - 56), x / unit - 58);
      };
      const wrap = (angle) => angle - TURN * Math.round(angle / TURN);
      const start = pointed(x0, y0);
      const off = (which) => Math.abs(wrap(pair[which].angle + at[which] * pair.f - start));
      const which = off("q") <= off("k") ? "q" : "k", from = at[which];
      let last = start, turned = 0;
      return (x, y) => {
        const now = pointed(x, y);
        turned += wrap(now - last);
        last = now;
        put(which, from + Math.round(turned / pair.f));
      };
    }

    // ---- the curve ----
    const points = Array.from({ length: 8 * reach + 1 }, (_, i) => [i / 4 - reach, score(i / 4 - reach)]);
    const [least, greatest] = [Math.min(0, ...points.map(([, y]) => y)), Math.max(0, ...points.map(([, y]) => y))];
    let room = 220;
    function drawCurve() {
      const floor = CURVE - 24, now = score(distance());
      const x = (to) => EDGE + (to + reach) / (2 * reach) * (room - EDGE - 8);
      const y = (value) => 10 + (greatest - value) / ((greatest - least) || 1) * (floor - 10);
      const text = (words, x, y, anchor, name = "") => svg("text", { x, y, "text-anchor": anchor, class: name }, words);
      const ends = [greatest, least].filter((value) => Math.abs(y(value) - y(0)) > 12).map((value) => text(digits(value), EDGE - 6, y(value) + 4, "end"));
      for (const [name, value] of Object.entries({ width: room, viewBox: `0 0 ${room} ${CURVE}` })) chart.setAttribute(name, value);
      chart.replaceChildren(svg("rect", { class: "hit", x: 0, y: 0, width: room, height: CURVE }),
        svg("line", { class: "axis", x1: EDGE, x2: room - 8, y1: y(0), y2: y(0) }), svg("line", { class: "axis", x1: x(0), x2: x(0), y1: 6, y2: floor }),
        text("0", EDGE - 6, y(0) + 4, "end"), ...ends,
        svg("path", { class: "curve", d: points.map(([to, value], i) => `${i ? "L" : "M"}${x(to).toFixed(1)} ${y(value).toFixed(1)}`).join("") }),
        svg("line", { class: "mark", x1: x(distance()), x2: x(distance()), y1: y(now), y2: floor + 3 }),
        svg("circle", { class: "dot", cx: x(distance()), cy: y(now), r: 6 }),
        text(`−${reach}: key after`, EDGE, CURVE - 5, "start"), text(`key before: ${reach}`, room - 8, CURVE - 5, "end"),
        text(`distance ${signed(distance())}`, clamp(x(distance()), EDGE + 116, room - 124), CURVE - 5, "middle", "strong"));
      return now;
    }
    drag(chart, () => (x) => setDistance(clamp(Math.round((x - EDGE) / (room - EDGE - 8) * 2 * reach) - reach, -reach, reach)));

    function drag(node, begin) { // begin(x, y) gives what to do as the pointer moves
      node.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        const box = node.getBoundingClientRect();
        const place = ({ clientX, clientY }) => [clientX - box.left, clientY - box.top];
        const act = begin(...place(event));
        act(...place(event));
        node.setPointerCapture(event.pointerId);
        const move = (now) => act(...place(now));
        node.addEventListener("pointermove", move);
        for (const end of ["pointerup", "pointercancel"]) node.addEventListener(end, () => node.removeEventListener("pointermove", move), { once: true });
      });
    }

    // ---- as a table ----
    const degrees = (angle) => `${Math.round(angle * 360 / TURN - 360 * Math.round(angle / TURN))}°`.replace("-", "−");
    const follow = asTable(root, () => [
      { caption: `Query at ${at.q}, key at ${at.k}: score ${minus(score(distance()))}, the sum of what the pairs add`,
        columns: ["pair", "positions once round", "length of q", "length of k", "angle of q", "angle of k", "between them", "adds"],
        rows: pairs.map((pair, i) => {
          const [ofQuery, ofKey] = ["q", "k"].map((which) => pair[which].angle + at[which] * pair.f);
          return [String(i), TURN / pair.f, pair.q.size, pair.k.size, degrees(ofQuery), degrees(ofKey), degrees(ofQuery - ofKey), part(pair, distance())];
        }) },
      { caption: "Score against the distance, query's position − key's", columns: ["distance", "score"],
        rows: Array.from({ length: 2 * reach + 1 }, (_, i) => [`${signed(i - reach)}${i - reach === distance() ? " (here)" : ""}`, score(i - reach)]) },
    ]);

    // ---- all of it ----
    function draw(together = false) {
      both.control.max = reach - Math.abs(distance());
      ofQ.set(at.q);
      ofK.set(at.k);
      both.set(low());
      const parts = clocks.map((clock, i) => drawClock(clock, pairs[i]));
      const now = drawCurve();
      result.replaceChildren("score ", name("q", `q at ${at.q}`), " · ", name("k", `k at ${at.k}`), " = ",
        ...parts.map((value, i) => element("span", { className: "term" }, `${i ? `${value < 0 ? " − " : " + "}${fixed(value)}` : minus(value)}`)),
        " ", element("span", { className: "term" }, "= ", element("b", { "data-of": "score" }, minus(now))));
      same.replaceChildren(together ? "Moved both: the hands turn, no angle between them changes. " : "",
        "Distance ", element("b", { className: "number", "data-of": "distance" }, signed(distance())),
        together ? ", and the score, as before." : ": the angles between the hands, and so the score, know only this.");
      say(`query ${at.q}, key ${at.k}, distance ${signed(distance())}: score ${together ? "still " : ""}${minus(now)}, `
        + `of the pairs ${parts.map(minus).join(", ")}`, 350);
      follow();
    }
    let seen = 0;
    new ResizeObserver(oncePerFrame(() => {
      if (root.clientWidth === seen) return;
      seen = root.clientWidth;
      room = Math.max(220, chartBox.clientWidth);
      draw();
    })).observe(root);
    draw();
  },
};
