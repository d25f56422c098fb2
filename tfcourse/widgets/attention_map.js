// Who attends to whom: a map to walk through, arcs, or the sentence; heads as thumbnails to sort.

const CSS = `
.body { display: flex; gap: 18px; margin-top: 10px; align-items: flex-start; }
.picture { flex: none; min-width: 0; max-width: 100%; }
.body.wide .picture { flex: 1 1 0; }
.readout { flex: 1 1 190px; max-width: 400px; }
.body.wide .readout { flex: 0 0 212px; }
@container (max-width: 520px) { .body { display: block; } .readout { max-width: none; margin-top: 10px; } }
.map { position: relative; outline-offset: 3px; border-radius: 4px; width: fit-content; max-width: 100%; touch-action: manipulation; }
.map canvas { display: block; cursor: crosshair; }
.map i { position: absolute; pointer-events: none; display: none; }
.line { background: var(--accent); opacity: .16; }
.cell { outline: 2px solid var(--accent); border-radius: 2px; box-shadow: 0 0 0 1px var(--paper); }
.greatest { outline: 2px dashed var(--ink); outline-offset: 1px; }
.readout { min-height: 17em; min-width: 0; }
.says { margin: 0 0 2px; font-size: 14px; }
.exact { margin: 0 0 8px; }
.says, .exact { overflow-wrap: anywhere; }
.says .token { white-space: pre-wrap; }
.bars { display: grid; grid-template-columns: fit-content(7em) minmax(40px, 1fr) max-content; gap: 3px 8px; align-items: center; }
.bars .token { overflow: hidden; text-overflow: ellipsis; text-align: end; }
.track { position: relative; height: 12px; background: linear-gradient(var(--faint), var(--faint)) var(--zero) 0 / 1px 100% no-repeat; }
.bars b { position: absolute; height: 12px; border-radius: 2px; min-width: 2px; background: var(--accent); }
.bars .more { background: var(--warm); }
.bars .less { background: #0072b2; }
.dark .bars .less { background: #3d9fd6; }
.bars .here { font-weight: 700; color: var(--accent); }
.heads { display: flex; flex-wrap: wrap; gap: 8px; margin-top: 12px; }
.head { padding: 5px; display: grid; gap: 3px; justify-items: start; line-height: 1.25; font-size: 11px; min-width: 76px; }
.head canvas { width: 64px; height: 64px; border-radius: 3px; image-rendering: pixelated; }
.head[aria-pressed="true"] { background: var(--raised); color: var(--ink); border-color: var(--accent); box-shadow: 0 0 0 1px var(--accent); }
.head .faint { font-variant-numeric: tabular-nums; }
.scale { display: flex; gap: 8px; align-items: center; margin-top: 6px; font-size: 11px; color: var(--faint); }
.scale i { width: 120px; height: 8px; border-radius: 4px; }
.arcs { max-width: 100%; overflow: auto; }
.arcs text { cursor: pointer; }
.arcs, .sentence { outline-offset: 3px; border-radius: 4px; }
.arcs[hidden], .sentence[hidden], .map[hidden], .scale[hidden], button[hidden] { display: none; }
.sentence { max-width: 62ch; font: 14px/2 var(--mono); }
.sentence p { margin: 0 0 10px; }
.word { display: inline-block; max-width: 100%; overflow-wrap: anywhere; line-height: 1.35; border-radius: 4px; padding: 2px 3px; margin: 0 1px; cursor: pointer; white-space: pre-wrap; unicode-bidi: isolate; }
.word.masked { color: var(--faint); text-decoration: line-through; text-decoration-thickness: 1px; }
.word.asks { outline: 2px solid var(--ink); font-weight: 700; text-decoration: none; }
.heads.tinted .head { border-bottom: 4px solid var(--tint); }
.keys { font: 12px/1.4 var(--font); margin: 8px 0 0; }
`;

const MODES = { weights: "weights", scores: "scores", mask: "mask", effect: "effect (weight × value)", difference: "difference" };
const LARGEST = 40; // tokens that still fit an arc diagram
const BARS = 9;
const THUMB = 64; // pixels of a thumbnail
// Okabe and Ito's, dark enough on white and light enough on black; a seventh head is dashed.
const HEADS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b0509a", "#b87a00", "#2f8fd0"],
  dark: ["#62aef5", "#ff8f3f", "#2fc496", "#e79ccb", "#ffc04d", "#9bd4ff"],
};

// 65536 pixels: what every half float looks like on a scale from low to high.
function halfTable({ scale }, name, low, high) {
  const colors = colorTable(name);
  const table = new Uint32Array(65536);
  const by = 1023 / ((high - low) || 1);
  for (let bits = 0; bits < 65536; bits++) {
    const place = (HALF[bits] * scale - low) * by;
    table[bits] = colors[place > 0 ? (place < 1023 ? place | 0 : 1023) : 0];
  }
  return table;
}

const pixel = (hex) => { // one opaque colour as ImageData holds it, whatever the byte order
  const bytes = new Uint8ClampedArray([0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)).concat(255));
  return new Uint32Array(bytes.buffer)[0];
};

export default {
  async render({ model, el }) {
    const state = model.get("state");
    const data = await unpack(model);
    const [layers, heads, queries, keys] = data.weights.shape;
    const size = queries * keys;
    const qNames = state.tokens.map(tokenText), kNames = state.keys.map(tokenText);
    // In words, a token that stands there twice is told apart by its place: it₀, it₆.
    const placed = (names) => names.map((name, i) => (names.indexOf(name) === names.lastIndexOf(name) ? name
      : name + [...String(i)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]).join("")));
    const qWords = placed(qNames), kWords = placed(kNames);
    const { root, say, colors, onTheme } = frame(el, { css: CSS, label: state.title });

    let mode = data.difference ? "difference" : "weights", kind = "map", together = false, layer = 0, head = 0, order = "";
    let at = [Math.min(queries - 1, 1), 0], locked = false, shown = false;
    const start = (of) => (layer * heads + of) * size;
    const value = (which, q, k, of = head) => {
      const block = data[which], bits = block.array[start(of) + q * keys + k];
      return block.kind === "half" ? HALF[bits] * block.scale : bits;
    };
    const isMasked = (q, k, of = head) => data.mask && !data.mask.array[start(of) + q * keys + k];
    // What may not be attended is grey, and never the brightest thing on the page.
    const tones = { dark: false, masked: pixel(MASKED) };
    function tone(dark) { Object.assign(tones, { dark, masked: pixel(dark ? "3a424c" : MASKED) }); }
    // One scale for the differences of all heads: they are there to be compared.
    const reach = Math.max(...(state.ranges.difference ?? []).flat(2).map(Math.abs), 0) || 1;
    const scaleName = () => (mode === "difference" ? DIVERGING : VIRIDIS);
    function range(of = head) {
      if (mode === "mask") return [0, 1];
      if (mode === "difference") return [-reach, reach];
      const [low, high] = state.ranges[mode][layer][of];
      return mode === "scores" ? [low, high === low ? low + 1 : high] : [Math.min(0, low), high || 1];
    }

    // ---- the matrix as an image, one pixel a cell ----
    const image = document.createElement("canvas");
    function paint(canvas, of, rows, columns) {
      [canvas.width, canvas.height] = [columns, rows];
      const context = canvas.getContext("2d");
      const pixels = context.createImageData(columns, rows);
      const out = new Uint32Array(pixels.data.buffer);
      const block = data[mode === "mask" ? "weights" : mode];
      const { bits, allowed } = cells(block, (layer * heads + of) * size, rows, columns);
      const grey = tones.masked;
      if (mode === "mask") {
        const yes = colorTable(VIRIDIS)[700];
        for (let i = 0; i < out.length; i++) out[i] = allowed[i] ? yes : grey;
      } else {
        const table = halfTable(block, scaleName(), ...range(of));
        table[0xfc00] = grey; // −∞ has no colour
        for (let i = 0; i < out.length; i++) out[i] = allowed && !allowed[i] ? grey : table[bits[i]];
      }
      context.putImageData(pixels, 0, 0);
    }

    // A head's half floats and mask. Where there are fewer pixels than cells, each shows the greatest
    // magnitude under it: a thin line of attention must not fall between them. Half floats compare by
    // their bits.
    function cells({ array }, from, rows, columns) {
      const mask = data.mask?.array;
      if (rows === queries && columns === keys) {
        return { bits: array.subarray(from, from + size), allowed: mask?.subarray(from, from + size) };
      }
      const bits = new Uint16Array(rows * columns).fill(0xfc00);
      const allowed = mask && new Uint8Array(rows * columns);
      for (let q = 0, i = from; q < queries; q++) {
        const row = Math.floor(q * rows / queries) * columns;
        for (let k = 0; k < keys; k++, i++) {
          const to = row + Math.floor(k * columns / keys);
          if (allowed) allowed[to] |= mask[i];
          const held = bits[to] === 0xfc00 ? -1 : bits[to] & 0x7fff;
          if (array[i] !== 0xfc00 && (array[i] & 0x7fff) > held) bits[to] = array[i];
        }
      }
      return { bits, allowed };
    }

    // ---- parts of the page ----
    const canvas = element("canvas");
    const [rowLine, columnLine, cellBox, greatest] = ["line", "line", "cell", "greatest"].map((c) => element("i", { className: c }));
    const stop = { tabIndex: 0, role: "application", "aria-roledescription": "attention map",
      "aria-label": `${queries} queries down, ${keys} keys across. Arrows move, Enter locks, page up and down change the head.` };
    const map = element("div", { className: "map", ...stop }, canvas, rowLine, columnLine, cellBox, greatest);
    const arcs = element("div", { className: "arcs", hidden: true, ...stop });
    const sentence = element("div", { className: "sentence", hidden: true, ...stop });
    const scaleBar = element("div", { className: "scale" });
    const says = element("p", { className: "says" }), exact = element("p", { className: "exact faint number" });
    const bars = element("div", { className: "bars" });
    const readout = element("div", { className: "readout" }, says, exact, bars,
      element("p", { className: "keys faint" }, "Click or Enter holds a row, Escape lets it go; T shows the numbers as a table."));
    const strip = element("div", { className: "heads", role: "group", "aria-label": "heads" });
    const modes = Object.keys(MODES).filter((name) => data[name]).map((name) => [name, MODES[name]]);
    const controls = element("div", { className: "row", style: { "margin-top": "8px" } });
    if (modes.length > 1) controls.append(select("show", modes, mode, (to) => { mode = to; refresh(); }));
    const kinds = [["map", "heatmap"], ...(queries <= LARGEST && keys <= LARGEST ? [["arcs", "arcs"]] : []), ["sentence", "sentence"]];
    controls.append(select("as", kinds, kind, (to) => { kind = to; refresh(); }));
    const allHeads = button("all heads", () => { together = !together; refresh(false); }, { hidden: true });
    if (heads > 1) controls.append(allHeads);
    if (layers > 1) {
      controls.append(select("layer", Array.from({ length: layers }, (_, i) => [i, String(i)]), 0, (to) => { layer = Number(to); refresh(); }));
    }
    const sorts = [["", "as they are"], ...Object.keys(state.statistics).map((name) => [name, name])];
    if (heads > 1) controls.append(select("sort heads by", sorts, "", (to) => { order = to; sortHeads(); }));
    const saver = button("save as PNG", save);
    controls.append(saver);
    const body = element("div", { className: "body" }, element("div", { className: "picture" }, map, arcs, sentence, scaleBar), readout);
    root.append(element("p", { className: "title" }, state.title), controls, body, strip);

    // ---- the map ----
    let place = { left: 0, top: 0, w: 1, h: 1 };
    function layout() {
      const room = Math.max(260, root.clientWidth - 34);
      const wide = room > 520 ? Math.min(room * 0.62, room - 206) : room;
      const measure = document.createElement("canvas").getContext("2d");
      measure.font = `12px ${colors().mono}`;
      const longest = (names) => Math.min(96, 8 + Math.max(...names.slice(0, 600).map((name) => measure.measureText(name).width)));
      const left = longest(qNames) + 17, top = longest(kNames) * (keys > 4 ? 0.8 : 0) + 18;
      const side = Math.min(keys > 10 ? 46 : 62, (wide - left - 4) / keys, 440 / Math.min(queries, Math.max(keys, queries / 1.6)));
      const w = keys * side, h = queries * Math.min(side, keys > 10 ? 46 : 54);
      return { left, top, w, h: Math.max(h, 24), width: left + w + (keys > 4 ? 26 : 4), height: top + Math.max(h, 24) + 19 };
    }

    // The map with its labels on any context: on the page, and in the saved picture.
    function drawOn(context, theme) {
      const { left, top, w, h } = place;
      const cw = w / keys, ch = h / queries;
      context.imageSmoothingEnabled = false;
      context.drawImage(image, left, top, w, h);
      context.font = `12px ${theme.mono}`;
      context.textBaseline = "middle";
      const every = (step) => Math.max(1, Math.ceil(14 / step));
      const clip = (name) => (name.length > 12 ? `${name.slice(0, 11)}…` : name);
      for (let q = 0; q < queries; q += every(ch)) {
        context.fillStyle = theme.faint;
        context.textAlign = "right";
        context.fillText(clip(qNames[q]), left - 6, top + (q + 0.5) * ch);
      }
      for (let k = 0; k < keys; k += every(cw)) {
        context.save();
        context.translate(left + (k + 0.5) * cw, top - 7);
        if (keys > 4) context.rotate(-Math.PI / 3.2);
        context.fillStyle = theme.faint;
        context.textAlign = keys > 4 ? "left" : "center";
        context.fillText(clip(kNames[k]), 0, 0);
        context.restore();
      }
      context.font = `11px ${theme.font}`; // the same words as in the still picture
      context.fillStyle = theme.faint;
      context.textAlign = "center";
      context.fillText(w > 100 ? "key: attended to" : "key", left + w / 2, top + h + 11);
      context.save();
      context.translate(8, top + h / 2);
      context.rotate(-Math.PI / 2);
      context.fillText(h > 90 ? "query: attends" : "query", 0, 0);
      context.restore();
      if (cw >= 36 && ch >= 20 && mode !== "mask") drawNumbers(context, theme, cw, ch);
    }

    function drawNumbers(context, theme, cw, ch) {
      const [low, high] = range();
      context.textAlign = "center";
      context.font = `11px ${theme.font}`;
      for (let q = 0; q < queries; q++) {
        for (let k = 0; k < keys; k++) {
          const x = value(mode, q, k);
          if (isMasked(q, k) || !Number.isFinite(x)) continue;
          context.fillStyle = inkOn(colorAt(scaleName(), (x - low) / (high - low)));
          context.fillText(x.toFixed(2).replace(/^-(?=0\.00$)/, "").replace("-", "−"), place.left + (k + 0.5) * cw, place.top + (q + 0.5) * ch);
        }
      }
    }

    function drawMap() {
      place = layout();
      const { dark } = colors();
      if (dark !== tones.dark) { tone(dark); drawThumbs(); }
      const ratio = window.devicePixelRatio || 1;
      paint(image, head, Math.min(queries, Math.ceil(place.h * ratio)), Math.min(keys, Math.ceil(place.w * ratio)));
      drawOn(fitCanvas(canvas, place.width, place.height), colors());
      const [low, high] = range();
      const stops = scaleName().split(" ").map((stop) => `#${stop}`).join(", ");
      scaleBar.replaceChildren(...(mode === "mask" ? ["green: may attend, grey: may not"]
        : [digits(low), element("i", { style: { background: `linear-gradient(90deg, ${stops})` } }), digits(high)]));
      scaleBar.style.marginLeft = `${place.left}px`;
      mark();
    }

    function box(node, x, y, w, h) {
      Object.assign(node.style, { display: "block", left: `${x}px`, top: `${y}px`, width: `${w}px`, height: `${h}px` });
    }
    function mark() {
      const { left, top, w, h } = place;
      const cw = w / keys, ch = h / queries, [q, k] = at;
      for (const node of [rowLine, columnLine, cellBox, greatest]) node.style.display = "none";
      if (mode === "difference") {
        const [gq, gk] = state.greatest[layer][head];
        box(greatest, left + gk * cw, top + gq * ch, Math.max(cw, 4), Math.max(ch, 4));
      }
      if (!shown) return;
      box(rowLine, left, top + q * ch, w, ch);
      box(columnLine, left + k * cw, top, cw, h);
      box(cellBox, left + k * cw, top + q * ch, Math.max(cw, 3), Math.max(ch, 3));
    }

    // ---- the row in words, numbers and bars ----
    function drawRow() {
      const [q, k] = at;
      const which = mode === "mask" ? "weights" : mode;
      const row = Array.from({ length: keys }, (_, j) => value(which, q, j));
      const ranked = row.map((x, j) => [x, j]).filter(([x, j]) => Number.isFinite(x) && !isMasked(q, j))
        .sort((a, b) => (which === "scores" ? b[0] - a[0] : Math.abs(b[0]) - Math.abs(a[0])));
      const best = ranked.filter(([x]) => x !== 0 || which === "scores").slice(0, BARS); // a score of 0 is a score
      const share = which === "weights";
      const name = (j) => element("b", { className: "token" }, kWords[j]);
      says.replaceChildren(element("b", { className: "token" }, qWords[q]), ...(best.length === 0
        ? [" attends to nothing"]
        : share ? [" attends ", `${percent(best[0][0])} to `, name(best[0][1]), ...(best[1] ? [`, ${percent(best[1][0])} to `, name(best[1][1])] : [])]
          : [`: largest ${which === "difference" ? "difference" : which === "scores" ? "score" : "effect"} at `, name(best[0][1])]));
      const own = value(which, q, k);
      exact.textContent = `${locked ? "held · " : ""}${qWords[q]} → ${kWords[k]}: ${isMasked(q, k) ? "masked" : digits(own)}`;
      const list = best.some(([, j]) => j === k) || !Number.isFinite(own) ? best : [...best.slice(0, BARS - 1), [own, k]];
      const [low, high] = [Math.min(0, ...list.map(([x]) => x)), Math.max(0, ...list.map(([x]) => x))];
      const along = (x) => 100 * (x - low) / ((high - low) || 1);
      bars.style.setProperty("--zero", `${along(0)}%`);
      bars.replaceChildren(...list.flatMap(([x, j]) => [
        element("span", { className: j === k ? "token here" : "token", title: state.keys[j] }, kWords[j]),
        element("span", { className: "track" }, element("b", { className: mode !== "difference" ? "" : x > 0 ? "more" : "less",
          style: { left: `min(${along(Math.min(x, 0))}%, calc(100% - 2px))`, width: `${Math.abs(along(x) - along(0))}%` } })),
        element("span", { className: "number" }, digits(x))]));
      if (shown) say(spoken(best, share), 250);
    }
    function spoken(best, share) {
      const [q, k] = at;
      const row = best.slice(0, 3).map(([x, j]) => `${share ? percent(x) : digits(x)} to ${kWords[j]}`).join(", ");
      return `${qWords[q]} ${share ? "attends" : mode} ${row || "to nothing"}. At ${kWords[k]}: ${isMasked(q, k) ? "masked" : digits(value(mode === "mask" ? "weights" : mode, q, k))}${locked ? ", held" : ""}`;
    }

    // ---- arcs: over one line of tokens back, under it ahead; between two lines for cross-attention ----
    const tint = (h) => (tones.dark ? HEADS.dark : HEADS.light)[h % 6];
    function drawArcs() {
      const theme = colors(), which = mode === "mask" ? "weights" : mode;
      const longest = Math.max(...[...qNames, ...kNames].map((name) => Math.min(14, [...name].length))) * 7.4 + 6;
      const most = Math.max(queries, keys), room = arcRoom();
      const step = Math.max(14, Math.min(96, room / most)), width = Math.max(step * most, 120);
      const turned = longest > step, label = turned ? longest * 0.9 : 18; // upright where they do not fit
      const x = (i, count) => width / 2 + (i - (count - 1) / 2) * step;
      const list = together ? thumbs.map((_, h) => h) : [head];
      const drawn = [];
      for (const h of list) {
        const [low, high] = range(h), reach = Math.max(Math.abs(low), Math.abs(high)) || 1;
        for (let q = 0; q < queries; q++) {
          if (shown && q !== at[0]) continue;
          for (let k = 0; k < keys; k++) {
            const amount = value(which, q, k, h), strength = Math.abs(amount) / reach;
            if (Number.isFinite(amount) && !isMasked(q, k, h) && strength >= (together && !shown ? 0.2 : 0.03)) drawn.push([h, q, k, strength, amount]);
          }
        }
      }
      const far = (ahead) => Math.max(0, ...drawn.filter(([, q, k]) => (k > q) === ahead).map(([, q, k]) => Math.abs(q - k)));
      const tall = (distance) => Math.min(190, 12 + distance * step / 2);
      const [above, below] = state.cross ? [150, 0] : [tall(far(false)) + 8, far(true) ? tall(far(true)) + 8 : 0];
      const line = state.cross ? label + above : above; // where the arcs of the queries begin
      const paths = drawn.map(([h, q, k, strength, amount]) => {
        const [from, to] = [x(q, queries), x(k, keys)];
        const r = Math.abs(to - from) / 2, ahead = k > q, base = ahead ? line + label + 4 : line;
        const d = state.cross ? `M${from} ${line}C${from} ${line - above / 2} ${to} ${line - above / 2} ${to} ${label + 4}`
          : q === k ? `M${from - 4} ${line}C${from - 9} ${line - 16} ${from + 9} ${line - 16} ${from + 4} ${line}`
            : `M${from} ${base}A${r} ${Math.min(r, 190)} 0 0 0 ${to} ${base}`;
        return svg("path", { d, fill: "none", "stroke-linecap": "round", "stroke-width": (0.8 + 4.2 * strength).toFixed(2), opacity: Math.min(1, 0.2 + strength).toFixed(2),
          stroke: mode === "difference" ? (amount < 0 ? (theme.dark ? "#3d9fd6" : "#0072b2") : theme.warm) : tint(h), ...(h >= 6 ? { "stroke-dasharray": "6 4" } : {}) });
      });
      const words = (names, count, y, isQuery) => names.map((name, i) => {
        const strong = shown && i === at[isQuery ? 0 : 1] && (isQuery || state.cross);
        const faint = shown && !strong && !(drawn.some(([, q, k]) => k === i && q === at[0]) && (!state.cross || !isQuery));
        const text = svg("text", { ...(turned ? { transform: `translate(${x(i, count) + 4} ${y})rotate(-90)`, "text-anchor": isQuery ? "end" : "start" } : { x: x(i, count), y: y + (isQuery ? 14 : 0), "text-anchor": "middle" }),
          fill: faint ? theme.faint : theme.ink, "font-family": theme.mono, "font-size": 12, "font-weight": strong ? 700 : 400 }, [...name].slice(0, 14).join(""));
        if (!isQuery) return text;
        text.addEventListener("pointerenter", () => { if (!locked) visit(i, at[1]); });
        text.addEventListener("click", () => hold(!(locked && i === at[0]), i, at[1]));
        return text;
      });
      const height = line + label + below + 12;
      const name = (text, y) => svg("text", { x: 0, y, fill: theme.faint, "font-family": theme.font, "font-size": 11 }, text);
      arcs.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": state.alt },
        ...paths, ...words(qNames, queries, line + 2, true), ...(state.cross ? words(kNames, keys, label, false) : []),
        ...(state.cross && width > 200 ? [name("key", label + 14), name("query", line - 4)] : [])));
    }
    const arcRoom = () => Math.max(240, root.clientWidth - 34 - (root.clientWidth > 554 ? 230 : 0));

    // ---- the sentence: each word as dark as the chosen one looks at it ----
    const spans = (names, side) => names.map((name, i) => element("span", { className: "word", title: side === "q" ? "query" : "key",
      onPointerEnter: () => { if (side === "q" && !locked) visit(i, at[1]); },
      onClick: () => (side === "q" ? hold(!(locked && i === at[0]), i, at[1]) : visit(at[0], i)) }, name));
    let asked = [], looked = [];
    function drawSentence() {
      if (!looked.length) {
        asked = spans(qNames, "q");
        looked = state.cross ? spans(kNames, "k") : asked;
        const part = (name, words) => element("p", {}, element("span", { className: "faint" }, name), ...words);
        sentence.replaceChildren(...(state.cross ? [part("queries ", asked), part("keys ", looked)] : [part("", asked)]),
          element("p", { className: "keys faint" }, "Point at a word: the darker another one, the more it looks there."));
      }
      const [q] = at, which = mode === "mask" ? "weights" : mode, theme = colors();
      const row = looked.map((_, k) => (isMasked(q, k) ? 0 : value(which, q, k)));
      const reach = Math.max(...row.filter(Number.isFinite).map(Math.abs)) || 1;
      looked.forEach((node, k) => {
        const share = Number.isFinite(row[k]) ? Math.abs(row[k]) / reach : 0;
        const color = mode === "difference" ? (row[k] < 0 ? (theme.dark ? "#3d9fd6" : "#0072b2") : theme.warm) : tint(head);
        node.style.background = share > 0.004 ? `color-mix(in srgb, ${color} ${Math.round(15 + 60 * share)}%, transparent)` : "";
        node.classList.toggle("masked", Boolean(isMasked(q, k)));
      });
      asked.forEach((node, i) => node.classList.toggle("asks", i === q));
    }
    const redraw = () => ({ map: mark, arcs: drawArcs, sentence: drawSentence })[kind]();

    // ---- heads ----
    const thumbs = Array.from({ length: heads > 1 ? heads : 0 }, (_, h) => {
      const picture = element("canvas");
      const said = element("span", { className: "faint" });
      return element("button", { type: "button", className: "head", onClick: () => { head = h; refresh(false); } }, picture, element("span", {}, state.names[h]), said);
    });
    function sortHeads() {
      const by = (h) => (order ? -state.statistics[order][layer][h] : h);
      const ranked = thumbs.map((_, h) => h).sort((a, b) => by(a) - by(b));
      const focus = root.getRootNode().activeElement;
      strip.replaceChildren(...ranked.map((h) => thumbs[h]));
      if (focus?.classList.contains("head")) focus.focus();
      for (const h of ranked) {
        const shownStatistic = order || "entropy";
        thumbs[h].lastChild.textContent = `${shownStatistic} ${digits(state.statistics[shownStatistic][layer][h])}`;
        thumbs[h].setAttribute("aria-pressed", String(h === head));
      }
      return ranked;
    }
    let round = 0;
    function drawThumbs() { // one head a turn: the map is on the page before
      const mine = ++round;
      const next = (h) => {
        if (mine !== round || h >= thumbs.length) return;
        paint(thumbs[h].querySelector("canvas"), h, Math.min(queries, THUMB), Math.min(keys, THUMB));
        setTimeout(() => next(h + 1));
      };
      requestAnimationFrame(() => setTimeout(() => next(0)));
    }

    // ---- as a table: the whole matrix while it can be read, else its largest; always the shown head ----
    const SMALL = 16, TOP = 5, HELD = 40;
    const follow = asTable(root, () => {
      const which = mode === "mask" ? "weights" : mode;
      const cell = (q, k) => (mode === "mask" ? (isMasked(q, k) ? "may not" : "may") : isMasked(q, k) ? "masked" : value(which, q, k));
      const where = [state.names[head], layers > 1 ? `layer ${layer}` : ""].filter(Boolean).join(", ");
      const titled = (words) => `${mode[0].toUpperCase()}${mode.slice(1)}${where ? ` of ${where}` : ""}${words}`;
      const largest = (q, count) => kWords.map((_, k) => k).filter((k) => !isMasked(q, k) && Number.isFinite(value(which, q, k)))
        .sort((a, b) => Math.abs(value(which, q, b)) - Math.abs(value(which, q, a))).slice(0, count);
      if (keys <= SMALL && queries <= HELD) {
        return { caption: titled(": queries down, keys across"), columns: ["query", ...kWords], rows: qWords.map((name, q) => [name, ...kWords.map((_, k) => cell(q, k))]) };
      }
      if (locked) {
        const q = at[0], list = largest(q, HELD);
        return { caption: titled(`: the held row, query ${qWords[q]}; its ${list.length} largest of ${keys} keys`), columns: ["key", which], rows: list.map((k) => [kWords[k], value(which, q, k)]) };
      }
      return { caption: titled(`: the ${Math.min(TOP, keys)} largest of the ${keys} keys of each query. Hold a row to read more of it.`),
        columns: ["query", ...Array.from({ length: Math.min(TOP, keys) }, (_, i) => [`key ${i + 1}`, which]).flat()],
        rows: qWords.map((name, q) => [name, ...largest(q, TOP).flatMap((k) => [kWords[k], value(which, q, k)])]) };
    });

    // ---- moving about ----
    function visit(q, k) { at = [q, k]; shown = true; update(); }
    function hold(held, q, k) {
      locked = held;
      visit(q, k);
      model.set("chosen", { layer, head, query: q, key: k, held });
      model.save_changes();
      follow();
    }
    const update = oncePerFrame(() => { redraw(); drawRow(); });
    function cellAt(event) {
      const bounds = canvas.getBoundingClientRect();
      const x = (event.clientX - bounds.left - place.left) / place.w, y = (event.clientY - bounds.top - place.top) / place.h;
      return x >= 0 && x < 1 && y >= -0.2 && y < 1 ? [Math.max(0, Math.floor(y * queries)), Math.floor(x * keys)]
        : x < 0 && y >= 0 && y < 1 ? [Math.floor(y * queries), at[1]] : null;
    }
    canvas.addEventListener("pointermove", (event) => {
      const to = cellAt(event);
      if (to && !locked && (to[0] !== at[0] || to[1] !== at[1] || !shown)) visit(...to);
    });
    canvas.addEventListener("click", (event) => {
      const to = cellAt(event);
      if (!to) return;
      hold(!(locked && to[0] === at[0]), ...to);
    });
    for (const part of [map, arcs, sentence]) part.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const [q, k] = at;
      const near = (x, most) => Math.min(most - 1, Math.max(0, x));
      const turn = (by) => { if (heads > 1) { const ranked = sortHeads(); head = ranked[(ranked.indexOf(head) + by + heads) % heads]; refresh(false); say(`${state.names[head]}`); } };
      const act = {
        ArrowUp: () => visit(near(q - 1, queries), k), ArrowDown: () => visit(near(q + 1, queries), k),
        ArrowLeft: () => visit(q, near(k - 1, keys)), ArrowRight: () => visit(q, near(k + 1, keys)),
        Home: () => visit(q, 0), End: () => visit(q, keys - 1),
        PageUp: () => turn(-1), PageDown: () => turn(1), "[": () => turn(-1), "]": () => turn(1),
        Enter: () => hold(!locked, q, k), " ": () => hold(!locked, q, k),
        Escape: () => { locked = false; shown = false; update(); follow(); },
      }[event.key];
      if (!act || event.shiftKey) return;
      act();
      event.preventDefault();
    });

    function save() {
      if (kind === "arcs") { saveArcs(); return; }
      const copy = document.createElement("canvas");
      const theme = { ...colors(), paper: "#ffffff", ink: "#1c2128", faint: "#59616c" };
      const context = fitCanvas(copy, place.width + 24, place.height + 46, 2);
      context.fillStyle = theme.paper;
      context.fillRect(0, 0, place.width + 24, place.height + 46);
      context.fillStyle = theme.ink;
      context.font = `600 15px ${theme.font}`;
      context.fillText(`${state.title} ${state.names[head]}`, 12, 24);
      context.translate(12, 36);
      const { dark } = tones;
      tone(false);
      paint(image, head, image.height, image.width);
      drawOn(context, theme);
      saveCanvas(copy, fileName(state.title, "png"));
      tone(dark);
      drawMap();
    }
    function saveArcs() {
      const drawing = arcs.firstElementChild, [width, height] = ["width", "height"].map((name) => Number(drawing.getAttribute(name)));
      const picture = new Image();
      picture.onload = () => {
        const copy = document.createElement("canvas");
        const context = fitCanvas(copy, width + 24, height + 24, 2);
        context.fillStyle = getComputedStyle(root).backgroundColor; // letters and arcs are of this theme
        context.fillRect(0, 0, width + 24, height + 24);
        context.drawImage(picture, 12, 12, width, height);
        saveCanvas(copy, fileName(state.title, "png"));
      };
      picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(drawing))}`;
    }

    function refresh(all = true) {
      map.hidden = kind !== "map";
      scaleBar.hidden = kind !== "map";
      arcs.hidden = allHeads.hidden = kind !== "arcs";
      body.classList.toggle("wide", kind !== "map");
      sentence.hidden = kind !== "sentence";
      saver.hidden = kind === "sentence"; // text is copied as text
      allHeads.setAttribute("aria-pressed", String(together));
      drawMap();
      thumbs.forEach((node, h) => node.style.setProperty("--tint", tint(h)));
      strip.classList.toggle("tinted", kind !== "map");
      sortHeads();
      drawRow();
      redraw();
      follow();
      if (all) drawThumbs();
    }

    refresh();
    onTheme(() => refresh());
    let last = root.clientWidth; // 0 as long as it is not on the page
    new ResizeObserver(oncePerFrame(() => {
      if (Math.abs(root.clientWidth - last) > 2) { last = root.clientWidth; drawMap(); redraw(); }
    })).observe(root);
  },
};
