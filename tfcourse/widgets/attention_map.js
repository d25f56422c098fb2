// Who attends to whom: a map to walk through, heads as thumbnails that can be sorted.

const CSS = `
.body { display: grid; grid-template-columns: minmax(0, auto) minmax(190px, 1fr); gap: 16px; margin-top: 10px; align-items: start; }
@container (max-width: 520px) { .body { grid-template-columns: minmax(0, 1fr); } }
.map { position: relative; outline-offset: 3px; border-radius: 4px; width: fit-content; max-width: 100%; touch-action: manipulation; }
.map canvas { display: block; cursor: crosshair; }
.map i { position: absolute; pointer-events: none; display: none; }
.line { background: var(--accent); opacity: .16; }
.cell { outline: 2px solid var(--accent); border-radius: 2px; box-shadow: 0 0 0 1px var(--paper); }
.greatest { outline: 2px dashed var(--ink); outline-offset: 1px; }
.readout { min-height: 17em; min-width: 0; }
.says { margin: 0 0 2px; font-size: 14px; }
.exact { margin: 0 0 8px; }
.bars { display: grid; grid-template-columns: fit-content(7em) minmax(40px, 1fr) max-content; gap: 3px 8px; align-items: center; }
.bars .token { overflow: hidden; text-overflow: ellipsis; text-align: end; }
.bars b { height: 12px; border-radius: 2px; min-width: 1px; background: var(--accent); }
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
.arcs text { font: 12px var(--mono); fill: var(--ink); cursor: pointer; }
.arcs .dim { fill: var(--faint); }
.keys { font-size: 11px; margin: 8px 0 0; }
`;

const MODES = { weights: "weights", scores: "scores", mask: "mask", effect: "effect (weight × value)", difference: "difference" };
const LARGEST = 40; // tokens that still fit an arc diagram
const BARS = 9;
const THUMB = 64; // pixels of a thumbnail

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

    let mode = data.difference ? "difference" : "weights", kind = "map", layer = 0, head = 0, order = "";
    let at = [Math.min(queries - 1, 1), 0], locked = false, shown = false;
    const start = () => (layer * heads + head) * size;
    const value = (which, q, k) => {
      const block = data[which], bits = block.array[start() + q * keys + k];
      return block.kind === "half" ? HALF[bits] * block.scale : bits;
    };
    const isMasked = (q, k) => data.mask && !data.mask.array[start() + q * keys + k];
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
      const grey = pixel(MASKED);
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
    const scaleBar = element("div", { className: "scale" });
    const says = element("p", { className: "says" }), exact = element("p", { className: "exact faint number" });
    const bars = element("div", { className: "bars" });
    const readout = element("div", { className: "readout" }, says, exact, bars,
      element("p", { className: "keys faint" }, "Click or Enter holds a row, Escape lets it go."));
    const strip = element("div", { className: "heads", role: "group", "aria-label": "heads" });
    const modes = Object.keys(MODES).filter((name) => data[name]).map((name) => [name, MODES[name]]);
    const controls = element("div", { className: "row", style: { "margin-top": "8px" } });
    if (modes.length > 1) controls.append(select("show", modes, mode, (to) => { mode = to; refresh(); }));
    if (queries <= LARGEST && keys <= LARGEST) {
      controls.append(select("as", [["map", "heatmap"], ["arcs", "arcs"]], kind, (to) => { kind = to; refresh(); }));
    }
    if (layers > 1) {
      controls.append(select("layer", Array.from({ length: layers }, (_, i) => [i, String(i)]), 0, (to) => { layer = Number(to); refresh(); }));
    }
    const sorts = [["", "as they are"], ...Object.keys(state.statistics).map((name) => [name, name])];
    if (heads > 1) controls.append(select("sort heads by", sorts, "", (to) => { order = to; sortHeads(); }));
    const saver = button("save as PNG", save);
    controls.append(saver);
    root.append(element("p", { className: "title" }, state.title), controls,
      element("div", { className: "body" }, element("div", {}, map, arcs, scaleBar), readout), strip);

    // ---- the map ----
    let place = { left: 0, top: 0, w: 1, h: 1 };
    function layout() {
      const room = Math.max(260, root.clientWidth - 34);
      const wide = room > 520 ? Math.min(room * 0.62, room - 206) : room;
      const measure = document.createElement("canvas").getContext("2d");
      measure.font = `12px ${colors().mono}`;
      const longest = (names) => Math.min(96, 8 + Math.max(...names.slice(0, 600).map((name) => measure.measureText(name).width)));
      const left = longest(qNames), top = longest(kNames) * (keys > 4 ? 0.8 : 0) + 18;
      const side = Math.min(46, (wide - left - 4) / keys, 440 / Math.min(queries, Math.max(keys, queries / 1.6)));
      const w = keys * side, h = queries * Math.min(side, 46);
      return { left, top, w, h: Math.max(h, 24), width: left + w + (keys > 4 ? 26 : 4), height: top + Math.max(h, 24) + 2 };
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
          context.fillText(x.toFixed(2).replace("-", "−"), place.left + (k + 0.5) * cw, place.top + (q + 0.5) * ch);
        }
      }
    }

    function drawMap() {
      place = layout();
      const ratio = window.devicePixelRatio || 1;
      paint(image, head, Math.min(queries, Math.ceil(place.h * ratio)), Math.min(keys, Math.ceil(place.w * ratio)));
      drawOn(fitCanvas(canvas, place.width, place.height), colors());
      const [low, high] = range();
      const stops = scaleName().split(" ").map((stop) => `#${stop}`).join(", ");
      scaleBar.replaceChildren(...(mode === "mask" ? ["green: may attend, grey: may not"]
        : [digits(low), element("i", { style: { background: `linear-gradient(90deg, ${stops})` } }), digits(high)]));
      scaleBar.style.marginLeft = `${kind === "map" ? place.left : 0}px`;
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
        .sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
      const best = ranked.filter(([x]) => x !== 0).slice(0, BARS);
      const share = which === "weights";
      const name = (j) => element("b", { className: "token" }, kWords[j]);
      says.replaceChildren(element("b", { className: "token" }, qWords[q]), ...(best.length === 0
        ? [" attends to nothing"]
        : share ? [" attends ", `${percent(best[0][0])} to `, name(best[0][1]), ...(best[1] ? [`, ${percent(best[1][0])} to `, name(best[1][1])] : [])]
          : [`: largest ${which === "difference" ? "difference" : which === "scores" ? "score" : "effect"} at `, name(best[0][1])]));
      const own = value(which, q, k);
      exact.textContent = `${locked ? "held · " : ""}${qWords[q]} → ${kWords[k]}: ${isMasked(q, k) ? "masked" : digits(own)}`;
      const top = Math.max(...best.map(([x]) => Math.abs(x)), 1e-12);
      const list = best.some(([, j]) => j === k) || !Number.isFinite(own) ? best : [...best.slice(0, BARS - 1), [own, k]];
      bars.replaceChildren(...list.flatMap(([x, j]) => [
        element("span", { className: j === k ? "token here" : "token", title: state.keys[j] }, kWords[j]),
        element("b", { className: mode !== "difference" ? "" : x > 0 ? "more" : "less", style: { width: `${100 * Math.abs(x) / top}%` } }),
        element("span", { className: "number" }, digits(x))]));
      if (shown) say(spoken(best, share), 250);
    }
    function spoken(best, share) {
      const [q, k] = at;
      const row = best.slice(0, 3).map(([x, j]) => `${share ? percent(x) : digits(x)} to ${kWords[j]}`).join(", ");
      return `${qWords[q]} ${share ? "attends" : mode} ${row || "to nothing"}. At ${kWords[k]}: ${isMasked(q, k) ? "masked" : digits(value(mode === "mask" ? "weights" : mode, q, k))}${locked ? ", held" : ""}`;
    }

    // ---- arcs ----
    function drawArcs() {
      const line = 21, width = 320, theme = colors();
      const height = line * Math.max(queries, keys) + 8;
      const [low, high] = range();
      const y = (i) => 14 + i * line;
      const lines = [], which = mode === "mask" ? "weights" : mode;
      for (let q = 0; q < queries; q++) {
        if (shown && q !== at[0]) continue;
        for (let k = 0; k < keys; k++) {
          const x = value(which, q, k);
          const strength = Math.abs(x) / (Math.max(Math.abs(low), Math.abs(high)) || 1);
          if (!Number.isFinite(x) || isMasked(q, k) || strength < 0.03) continue;
          lines.push(svg("path", { d: `M110 ${y(q)}C160 ${y(q)} 160 ${y(k)} 210 ${y(k)}`, fill: "none",
            stroke: mode === "difference" && x < 0 ? "#0072b2" : mode === "difference" ? theme.warm : theme.accent,
            "stroke-width": (0.5 + 3.5 * strength).toFixed(2), opacity: Math.min(1, 0.15 + strength).toFixed(2) }));
        }
      }
      const words = (names, x, anchor, side) => names.map((name, i) => {
        const text = svg("text", { x, y: y(i) + 4, "text-anchor": anchor, class: shown && side === 0 && i !== at[0] ? "dim" : "" }, name.slice(0, 14));
        if (side === 0) text.addEventListener("pointerenter", () => { if (!locked) visit(i, at[1]); });
        if (side === 0) text.addEventListener("click", () => hold(!locked, i, at[1]));
        return text;
      });
      arcs.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": state.alt },
        ...lines, ...words(qNames, 104, "end", 0), ...words(kNames, 216, "start", 1)));
    }

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

    // ---- moving about ----
    function visit(q, k) { at = [q, k]; shown = true; update(); }
    function hold(held, q, k) {
      locked = held;
      visit(q, k);
      model.set("chosen", { layer, head, query: q, key: k, held });
      model.save_changes();
    }
    const update = oncePerFrame(() => { mark(); drawRow(); if (kind === "arcs") drawArcs(); });
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
    for (const part of [map, arcs]) part.addEventListener("keydown", (event) => {
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
        Escape: () => { locked = false; shown = false; update(); },
      }[event.key];
      if (!act || event.shiftKey) return;
      act();
      event.preventDefault();
    });

    function save() {
      const copy = document.createElement("canvas");
      const theme = { ...colors(), paper: "#ffffff", ink: "#1c2128", faint: "#59616c" };
      const context = fitCanvas(copy, place.width + 24, place.height + 46, 2);
      context.fillStyle = theme.paper;
      context.fillRect(0, 0, place.width + 24, place.height + 46);
      context.fillStyle = theme.ink;
      context.font = `600 15px ${theme.font}`;
      context.fillText(`${state.title} ${state.names[head]}`, 12, 24);
      context.translate(12, 36);
      drawOn(context, theme);
      saveCanvas(copy, fileName(state.title, "png"));
    }

    function refresh(all = true) {
      map.hidden = kind !== "map";
      arcs.hidden = kind !== "arcs";
      saver.disabled = kind !== "map"; // there is no canvas of the arcs
      drawMap();
      sortHeads();
      drawRow();
      if (kind === "arcs") drawArcs();
      if (all) drawThumbs();
    }

    refresh();
    onTheme(() => { drawMap(); if (kind === "arcs") drawArcs(); });
    let last = root.clientWidth; // 0 as long as it is not on the page
    new ResizeObserver(oncePerFrame(() => {
      if (Math.abs(root.clientWidth - last) > 2) { last = root.clientWidth; drawMap(); }
    })).observe(root);
  },
};
