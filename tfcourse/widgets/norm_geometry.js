// A cloud of three-number tokens to turn, and where LayerNorm and RMSNorm send each of them.

const CSS = `
.body { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 330px); gap: 18px; margin-top: 10px; align-items: start; }
@container (max-width: 620px) { .body { grid-template-columns: minmax(0, 1fr); gap: 12px; } }
.stage { min-width: 0; overflow: hidden; padding: 3px; margin: -3px; }
canvas { display: block; border-radius: 8px; cursor: grab; touch-action: pan-y; }
canvas.turning { cursor: grabbing; }
.scale { display: flex; gap: 7px; align-items: center; margin-top: 7px; font-size: 11px; color: var(--faint); flex-wrap: wrap; }
.scale i { width: 84px; height: 8px; border-radius: 4px; }
.scale button { font-size: 11px; padding: 1px 8px; }
.scale .end { margin-inline-start: auto; }
.formula { margin: 0 0 1px; font-size: 14px; font-weight: 600; }
.meaning { margin: 0 0 12px; min-height: 4.3em; }
table { border-collapse: collapse; width: 100%; margin: 8px 0 10px; font-size: 12px; }
th, td { text-align: end; padding: 3px 0 3px 3px; white-space: nowrap; font-variant-numeric: tabular-nums; }
thead th { font-weight: 400; color: var(--faint); border-bottom: 1px solid var(--line); }
tbody th { text-align: start; font-weight: 400; padding-inline-start: 6px; }
td:nth-of-type(4), thead th:nth-of-type(5) { padding-inline-start: 10px; }
tr.here { background: var(--raised); } tr.here th { font-weight: 650; box-shadow: inset 3px 0 var(--accent); }
td.moved { color: var(--warm); text-decoration: underline; text-underline-offset: 3px; }
.slide { display: grid; grid-template-columns: 8.6em minmax(40px, 1fr) 5ch; margin: 3px 0; }
.slide output { text-align: end; }
.slide input { width: 100%; min-width: 0; }
.verdict { margin: 8px 0 0; min-height: 2.9em; }
.verdict b { color: var(--good); } .verdict b.moved { color: var(--warm); }
.pick b { color: var(--ink); min-width: 8.2em; text-align: center; display: inline-block; }
.small { font-size: 11px; margin: 8px 0 0; }
`;

const EPS = 1e-5;
const RADIUS = Math.sqrt(3);
const PLANE = [[1, -1, 0].map((x) => x / Math.sqrt(2)), [1, 1, -2].map((x) => x / Math.sqrt(6))];
const MODES = {
  none: { name: "as they are", formula: "x = (x₁, x₂, x₃)", meaning: "The tokens lie beside the origin and differ in length. Pick a norm and watch where each goes." },
  layer: { name: "LayerNorm", formula: "y = (x − mean) / √(variance + 10⁻⁵)", meaning: "First the mean goes: each point drops onto the plane. Then all get the length √3: a circle. Only an angle is left of a token." },
  rms: { name: "RMSNorm", formula: "y = x / √(mean of x² + 10⁻⁵)", meaning: "Each point slides along its own ray until it is √3 long: a sphere. Only its direction is left, and the mean stays in it." },
};
const VIEWS = { start: [0.30, 0.38], edge: [-Math.PI / 4, 0], face: [Math.PI / 4, Math.atan(1 / Math.sqrt(2))] };

const mean = (p) => (p[0] + p[1] + p[2]) / 3;
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const length = (p) => Math.sqrt(dot(p, p));
const centred = (p) => p.map((x) => x - mean(p));
const rms = (p) => p.map((x) => x / Math.sqrt(dot(p, p) / 3 + EPS));
const NORMS = { none: (p) => p, layer: (p) => rms(centred(p)), rms };
const apart = (a, b) => length(a.map((x, i) => x - b[i]));
const clean = (x) => digits(Math.abs(x) < 1e-9 ? 0 : x); // a mean of 10⁻¹⁷ is 0

export default {
  async render({ model, el }) {
    const state = model.get("state");
    const { points } = await unpack(model);
    const flat = decode(points), count = points.shape[0];
    // hundredths, as Python made them: half floats alone would be a little off
    const cloud = Array.from({ length: count }, (_, i) => [0, 1, 2].map((j) => Math.round(100 * flat[3 * i + j]) / 100));
    const lengths = cloud.map(length);
    const [least, most] = [Math.min(...lengths), Math.max(...lengths)];
    const tints = lengths.map((l) => colorAt(VIRIDIS, (l - least) / (most - least || 1)));

    const { root, say, colors, onTheme } = frame(el, { css: CSS, label: state.title });
    let mode = "none", chosen = 0, scale = 1, add = 0, sphere = true, plane = true;
    let [round, up] = VIEWS.start, width = 0, height = 0, reach;

    // ---- where the points are ----
    const before = (i) => (i === chosen ? cloud[i].map((x) => scale * x + add) : cloud[i]);
    const places = (norm) => cloud.map((_, i) => norm(before(i)));
    // How far the picture reaches: a long point stays in it, as seen from where we are.
    function reachOf(which) {
      if (which !== "none") return 2.3;
      const [right, above] = aim(), p = before(chosen);
      return Math.max(0.94 * most, 2.2, 1.15 * Math.hypot(dot(right, p), dot(above, p)));
    }
    // The directions that point right, up and towards us.
    function aim() {
      const [c, s, cu, su] = [Math.cos(round), Math.sin(round), Math.cos(up), Math.sin(up)];
      return [[-s, c, 0], [-su * c, -su * s, cu], [cu * c, cu * s, su]];
    }
    let now = places(NORMS.none);
    const running = {}; // frames asked for, by name
    reach = reachOf(mode);

    // Calls `step` with a share from 0 to 1; at once where motion is not wanted. One at a time for
    // each name: a newer one ends the older.
    function glide(name, time, step) {
      stop(name);
      if (matchMedia("(prefers-reduced-motion: reduce)").matches || !root.isConnected) { step(1); draw(); return; }
      let began;
      const tick = (moment) => {
        began ??= moment;
        const share = Math.min(1, (moment - began) / time);
        step(share);
        paint();
        running[name] = share < 1 ? requestAnimationFrame(tick) : 0;
      };
      running[name] = requestAnimationFrame(tick);
    }
    function stop(name) { cancelAnimationFrame(running[name]); running[name] = 0; }
    const ease = (t) => t * t * (3 - 2 * t);

    function choose(next) {
      if (next === mode) return;
      const both = [mode, next].includes("layer") && [mode, next].includes("none");
      // between a cloud and its LayerNorm lies the cloud without its means: two steps, as in the formula
      const stops = [now, ...(both ? [places(centred)] : []), places(NORMS[next])];
      const [from, to] = [reach, reachOf(next)];
      mode = next;
      glide("points", 800 * (stops.length - 1), (share) => {
        const leg = Math.min(stops.length - 2, Math.floor(share * (stops.length - 1)));
        const part = ease(share * (stops.length - 1) - leg);
        now = cloud.map((_, i) => stops[leg][i].map((x, j) => x + part * (stops[leg + 1][i][j] - x)));
        reach = from + ease(share) * (to - from);
      });
      tell();
      speak();
    }
    function arrive() { // what a slider or another point asks for is there at once
      stop("points");
      now = places(NORMS[mode]);
      reach = reachOf(mode);
      draw();
      tell();
    }
    function pick(i) {
      chosen = (i + count) % count;
      [scale, add] = [1, 0];
      longer.set(0);
      shift.set(0);
      arrive();
      speak(150);
    }
    function look(where) {
      const [from, to] = [[round, up], VIEWS[where]];
      // the short way round
      const way = ((to[0] - from[0] + Math.PI) % (2 * Math.PI) + 2 * Math.PI) % (2 * Math.PI) - Math.PI;
      glide("camera", 600, (share) => {
        round = from[0] + ease(share) * way;
        up = from[1] + ease(share) * (to[1] - from[1]);
      });
      say({ start: "seen from the start", edge: "seen along the plane: it is a line", face: "seen from (1, 1, 1): straight down on the plane" }[where]);
    }
    function turn(right, above) {
      stop("camera");
      round += right;
      up = Math.min(Math.PI / 2, Math.max(-Math.PI / 2, up + above));
      draw();
    }

    // ---- parts of the page ----
    const canvas = element("canvas", { tabIndex: 0, role: "application", "aria-roledescription": "3-D view",
      "aria-label": "Cloud of points. Arrows turn it, page up and page down pick another point." });
    const stage = element("div", { className: "stage" }, canvas);
    const modes = Object.entries(MODES).map(([key, { name }]) => button(name, () => choose(key), { "data-mode": key }));
    const toggle = (text, flip) => {
      const node = button(text, () => { node.setAttribute("aria-pressed", String(flip())); draw(); }, { "aria-pressed": "true" });
      return node;
    };
    const stops = VIRIDIS.split(" ").map((stop) => `#${stop}`).join(", ");
    const looks = element("div", { className: "scale", role: "group", "aria-label": "look" },
      button("from the side", () => look("edge")), button("from above", () => look("face")), button("as at first", () => look("start")),
      element("span", { className: "end" }, "drag to turn, click a point"));
    const legend = element("div", { className: "scale" }, `colour: length before, ${digits(least)}`,
      element("i", { style: { background: `linear-gradient(90deg, ${stops})` } }), digits(most));
    const formula = element("p", { className: "formula" }), meaning = element("p", { className: "meaning faint" });
    const which = element("b", { className: "number" });
    const pickers = element("div", { className: "row pick", style: { gap: "6px" } },
      button("◀", () => pick(chosen - 1), { "aria-label": "previous point" }), which,
      button("▶", () => pick(chosen + 1), { "aria-label": "next point" }));
    pickers.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
      pick(chosen + by);
      event.preventDefault();
    });
    const rows = Object.entries(MODES).map(([key, { name }]) => element("tr", {}, element("th", { scope: "row" }, key === "none" ? "as it is" : name),
      ...Array.from({ length: 5 }, () => element("td"))));
    const table = element("table", {}, element("thead", {}, element("tr", {}, element("th"),
      ...["x₁", "x₂", "x₃", "mean", "length"].map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, ...rows));
    const longer = slider("make it longer", { min: -6, max: 20, value: 0, text: (s) => `×${digits(10 ** (s / 20))}`,
      onInput: (s) => { scale = 10 ** (s / 20); arrive(); speak(400); } });
    const shift = slider("add to all three", { min: -5, max: 5, step: 0.1, value: 0, text: (c) => plusMinus(c),
      onInput: (c) => { add = c; arrive(); speak(400); } });
    longer.classList.add("slide");
    shift.classList.add("slide");
    const verdict = element("p", { className: "verdict" });
    root.append(element("p", { className: "title" }, state.title),
      element("div", { className: "row", style: { margin: "10px 0 0" } },
        element("div", { className: "row", role: "group", "aria-label": "norm", style: { gap: "5px" } }, ...modes),
        element("div", { className: "row", role: "group", "aria-label": "show", style: { gap: "5px" } },
          element("span", { className: "faint" }, "show"), toggle("plane", () => { plane = !plane; return plane; }), toggle("sphere", () => { sphere = !sphere; return sphere; }))),
      element("div", { className: "body" },
        element("div", { style: { "min-width": 0 } }, stage, looks, legend),
        element("div", { style: { "min-width": 0 } }, formula, meaning, pickers, table, longer, shift, verdict,
          element("p", { className: "small faint" }, "With d numbers in place of three the radius is √d: 27.7 for d = 768."))));

    // ---- words and numbers ----
    function plusMinus(c) { return c === 0 ? "+0" : `${c > 0 ? "+" : "−"}${Math.abs(c).toFixed(1)}`; }
    const movedBy = (key) => apart(NORMS[key](before(chosen)), NORMS[key](cloud[chosen]));
    const noticed = (key) => movedBy(key) >= 0.005;

    function tell() {
      for (const node of modes) node.setAttribute("aria-pressed", String(node.dataset.mode === mode));
      formula.textContent = MODES[mode].formula;
      meaning.textContent = MODES[mode].meaning;
      which.textContent = `point ${chosen + 1} of ${count}`;
      Object.keys(MODES).forEach((key, r) => {
        const [p, was] = [NORMS[key](before(chosen)), NORMS[key](cloud[chosen])];
        const numbers = [...p, mean(p), length(p)], base = [...was, mean(was), length(was)];
        rows[r].className = key === mode ? "here" : "";
        [...rows[r].querySelectorAll("td")].forEach((cell, i) => {
          cell.textContent = clean(numbers[i]);
          cell.className = Math.abs(numbers[i] - base[i]) >= 0.005 ? "moved" : "";
        });
      });
      const asIs = scale === 1 && add === 0;
      verdict.replaceChildren(...(asIs ? ["Move a slider: which rows of the table change?"]
        : ["layer", "rms"].flatMap((key, i) => [i ? element("br") : "", `${MODES[key].name} `,
          noticed(key) ? element("b", { className: "moved" }, `moves by ${digits(movedBy(key))}`) : element("b", {}, "does not notice")])));
      verdict.classList.toggle("faint", asIs);
      follow();
    }
    const captions = {
      none: () => `All ${count} points as they are; point ${chosen + 1} as the sliders have made it`,
      layer: () => "After LayerNorm: the mean is 0, the length √3 = 1.73",
      rms: () => "After RMSNorm: the length is √3 = 1.73",
    };
    const follow = asTable(root, () => Object.entries(NORMS).map(([key, norm]) => ({
      caption: captions[key](),
      columns: ["point", "x₁", "x₂", "x₃", "mean", "length"],
      rows: cloud.map((_, i) => {
        const p = norm(before(i));
        return [`${i + 1}${i === chosen ? " (chosen)" : ""}`, ...p.map(clean), clean(mean(p)), length(p)];
      }),
    })));
    function speak(wait = 100) {
      const said = (p) => `${p.map(clean).join(", ")}, mean ${clean(mean(p))}, length ${clean(length(p))}`;
      const p = before(chosen);
      const after = mode === "none" ? "" : `; after ${MODES[mode].name} ${said(NORMS[mode](p))}`;
      const changed = scale === 1 && add === 0 ? "" : `. ${["layer", "rms"].map((key) => `${MODES[key].name} ${noticed(key) ? `moves by ${digits(movedBy(key))}` : "does not notice"}`).join(", ")}`;
      say(`${MODES[mode].name}. Point ${chosen + 1} of ${count}: ${said(p)}${after}${changed}`, wait);
    }

    // ---- the picture ----
    // Screen x, y and depth (greater: nearer) of a point; parallel lines stay parallel.
    let axes3 = [];
    function project(p) {
      const by = Math.min(width, height) / 2 / reach;
      return [width / 2 + by * dot(axes3[0], p), height / 2 - by * dot(axes3[1], p), dot(axes3[2], p)];
    }
    function paint() {
      if (!width) return;
      axes3 = aim();
      if (!running.points) reach = reachOf(mode);
      const theme = colors(), context = fitCanvas(canvas, width, height);
      context.fillStyle = theme.raised;
      context.globalAlpha = 0.55;
      context.fillRect(0, 0, width, height);
      context.globalAlpha = 1;
      context.lineJoin = context.lineCap = "round";

      const facing = dot([1, 1, 1], axes3[2]) >= 0 ? 1 : -1; // which side of the plane we see
      const isBehind = (p) => plane && facing * (p[0] + p[1] + p[2]) < -1e-3;
      drawAxes(context, theme, (end) => isBehind(end) || (!plane && dot(end, axes3[2]) < 0));
      if (sphere) drawSphere(context, theme);
      const order = now.map((_, i) => i).sort((a, b) => dot(now[a], axes3[2]) - dot(now[b], axes3[2]));
      for (const i of order) if (isBehind(now[i])) drawPoint(context, theme, i);
      if (plane) drawPlane(context, theme);
      drawAxes(context, theme, (end) => !(isBehind(end) || (!plane && dot(end, axes3[2]) < 0)));
      drawWay(context, theme);
      for (const i of order) if (!isBehind(now[i]) && i !== chosen) drawPoint(context, theme, i);
      drawChosen(context, theme);
      const [x, y] = project(now[chosen]);
      canvas.dataset.at = `${x.toFixed(2)} ${y.toFixed(2)}`;
    }
    const draw = oncePerFrame(paint);

    function trace(context, list, closed = false) {
      context.beginPath();
      list.forEach((p, i) => { const [x, y] = project(p); if (i) context.lineTo(x, y); else context.moveTo(x, y); });
      if (closed) context.closePath();
    }
    function write(context, theme, text, x, y, colour, weight = 500) {
      context.font = `${weight} 12px ${theme.font}`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      const half = context.measureText(text).width / 2 + 4;
      const at = [Math.min(width - half, Math.max(half, x)), Math.min(height - 9, Math.max(9, y))];
      context.strokeStyle = theme.paper;
      context.lineWidth = 3;
      context.strokeText(text, ...at);
      context.fillStyle = colour;
      context.fillText(text, ...at);
    }
    function drawAxes(context, theme, isWanted) {
      for (let j = 0; j < 3; j++) {
        for (const side of [-1, 1]) {
          const end = [0, 0, 0];
          end[j] = 0.86 * side * reach;
          if (!isWanted(end)) continue;
          context.strokeStyle = theme.faint;
          context.globalAlpha = side > 0 ? 0.9 : 0.4;
          context.lineWidth = side > 0 ? 1.4 : 1;
          trace(context, [[0, 0, 0], end]);
          context.stroke();
          context.globalAlpha = 1;
          const from = project([0, 0, 0]), to = project(end);
          const far = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
          if (side > 0 && far > 24) {
            write(context, theme, `x${"₁₂₃"[j]}`, to[0] + 11 * (to[0] - from[0]) / far, to[1] + 11 * (to[1] - from[1]) / far, theme.ink, 600);
          }
        }
      }
    }
    function drawSphere(context, theme) {
      const [x, y] = project([0, 0, 0]);
      const r = RADIUS * Math.min(width, height) / 2 / reach;
      const light = context.createRadialGradient(x - r / 3, y - r / 3, r / 8, x, y, r);
      const shade = theme.dark ? ["rgb(255 255 255 / .10)", "rgb(255 255 255 / .02)"] : ["rgb(255 255 255 / .7)", "rgb(120 135 160 / .13)"];
      shade.forEach((colour, i) => light.addColorStop(i, colour));
      context.beginPath();
      context.arc(x, y, r, 0, 2 * Math.PI);
      context.fillStyle = light;
      context.fill();
      context.strokeStyle = theme.faint;
      context.globalAlpha = mode === "rms" ? 0.9 : 0.5;
      context.lineWidth = mode === "rms" ? 1.6 : 1;
      context.stroke();
      // parallels and meridians: the half that looks away is fainter
      for (let k = -2; k <= 2; k++) {
        const z = RADIUS * Math.sin(k * Math.PI / 6), flat = RADIUS * Math.cos(k * Math.PI / 6);
        wire(context, (t) => [flat * Math.cos(t), flat * Math.sin(t), z]);
      }
      for (let k = 0; k < 6; k++) {
        const a = k * Math.PI / 6;
        wire(context, (t) => [RADIUS * Math.cos(t) * Math.cos(a), RADIUS * Math.cos(t) * Math.sin(a), RADIUS * Math.sin(t)]);
      }
      context.globalAlpha = 1;
    }
    function wire(context, at) {
      context.lineWidth = 0.7;
      for (const front of [false, true]) {
        context.globalAlpha = front ? 0.3 : 0.1;
        context.beginPath();
        let pen = false;
        for (let k = 0; k <= 60; k++) {
          const [x, y, depth] = project(at(k / 60 * 2 * Math.PI));
          if (depth >= 0 !== front) { pen = false; continue; }
          if (pen) context.lineTo(x, y); else context.moveTo(x, y);
          pen = true;
        }
        context.stroke();
      }
    }
    const inPlane = (a, b) => [0, 1, 2].map((j) => a * PLANE[0][j] + b * PLANE[1][j]);
    function drawPlane(context, theme) {
      const half = 0.88 * Math.min(reach, 3.2);
      const corners = [[1, 1], [1, -1], [-1, -1], [-1, 1]].map(([a, b]) => inPlane(a * half, b * half));
      context.fillStyle = context.strokeStyle = theme.good;
      context.globalAlpha = theme.dark ? 0.13 : 0.09;
      trace(context, corners, true);
      context.fill();
      context.globalAlpha = 0.5;
      context.lineWidth = 1;
      context.stroke();
      context.globalAlpha = 0.13;
      for (let k = -3; k <= 3; k++) {
        const at = k * half / 4;
        for (const ends of [[inPlane(at, -half), inPlane(at, half)], [inPlane(-half, at), inPlane(half, at)]]) { trace(context, ends); context.stroke(); }
      }
      context.globalAlpha = 1;
      context.lineWidth = mode === "layer" ? 2.4 : 1.4;
      if (mode !== "layer") context.setLineDash([5, 4]);
      trace(context, Array.from({ length: 73 }, (_, k) => inPlane(RADIUS * Math.cos(k * Math.PI / 36), RADIUS * Math.sin(k * Math.PI / 36))));
      context.stroke();
      context.setLineDash([]);
      const low = corners.map(project).sort((a, b) => b[1] - a[1])[0];
      write(context, theme, "x₁ + x₂ + x₃ = 0", low[0], low[1] + 10, theme.good, 600);
    }
    function drawPoint(context, theme, i) {
      const [x, y, depth] = project(now[i]);
      const near = Math.min(1, Math.max(0, 0.5 + depth / (2 * Math.min(reach, 3)))); // smaller and paler far away
      context.globalAlpha = 0.45 + 0.55 * near;
      context.beginPath();
      context.arc(x, y, 3 + 2.2 * near, 0, 2 * Math.PI);
      context.fillStyle = css(tints[i]);
      context.fill();
      context.strokeStyle = theme.dark ? "#0d1014" : "#ffffff";
      context.lineWidth = 1;
      context.stroke();
      if (!theme.dark) { // yellow needs an edge on white
        context.strokeStyle = "rgb(28 33 40 / .45)";
        context.lineWidth = 0.6;
        context.stroke();
      }
      context.globalAlpha = 1;
    }
    // The way that the chosen point took: LayerNorm's has a corner on the plane.
    function drawWay(context, theme) {
      if (mode === "none") return;
      const p = before(chosen);
      const way = mode === "layer" ? [p, centred(p), NORMS.layer(p)] : [p, NORMS.rms(p)];
      context.strokeStyle = theme.warm;
      context.lineWidth = 1.8;
      context.setLineDash([4, 4]);
      trace(context, way);
      context.stroke();
      context.setLineDash([]);
      const [x, y] = project(p);
      context.beginPath();
      context.arc(x, y, 5.5, 0, 2 * Math.PI);
      context.fillStyle = theme.paper;
      context.fill();
      context.stroke();
      // outside the picture the word stands where the way leaves it
      const [fx, fy] = mode === "layer" ? project(way[1]) : project([0, 0, 0]);
      const inside = (from, to, most) => (to > most ? (most - from) / (to - from) : to < 0 ? from / (from - to) : 1);
      const share = Math.min(inside(fx, x, width), inside(fy, y, height));
      if (share >= 1) write(context, theme, "before", x, y - 14, theme.warm, 600);
      else if (share > 0) write(context, theme, "before", fx + share * (x - fx), fy + share * (y - fy) - 14, theme.warm, 600);
    }
    function drawChosen(context, theme) {
      context.strokeStyle = theme.accent;
      context.lineWidth = 2.2;
      trace(context, [[0, 0, 0], now[chosen]]);
      context.stroke();
      const [x, y] = project(now[chosen]);
      context.beginPath();
      context.arc(x, y, 7, 0, 2 * Math.PI);
      context.fillStyle = css(tints[chosen]);
      context.fill();
      context.lineWidth = 5;
      context.strokeStyle = theme.paper;
      context.stroke();
      context.lineWidth = 2.6;
      context.strokeStyle = theme.accent;
      context.stroke();
    }

    // ---- turning and picking ----
    let held = null, travelled = 0;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      held = [event.clientX, event.clientY];
      travelled = 0;
      canvas.setPointerCapture(event.pointerId);
      canvas.classList.add("turning");
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held) return;
      const [dx, dy] = [event.clientX - held[0], event.clientY - held[1]];
      travelled += Math.hypot(dx, dy);
      held = [event.clientX, event.clientY];
      if (travelled > 3) turn(-dx * 0.009, dy * 0.009);
    });
    const release = () => { held = null; canvas.classList.remove("turning"); };
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerup", (event) => {
      if (held && travelled <= 3) pickAt(event);
      release();
    });
    function pickAt(event) {
      const box = canvas.getBoundingClientRect();
      const far = now.map((p) => { const [x, y] = project(p); return Math.hypot(x - event.clientX + box.left, y - event.clientY + box.top); });
      const best = far.indexOf(Math.min(...far));
      if (far[best] < 16) pick(best);
    }
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const step = Math.PI / 36;
      const act = { ArrowLeft: () => turn(step, 0), ArrowRight: () => turn(-step, 0), ArrowUp: () => turn(0, -step), ArrowDown: () => turn(0, step),
        PageUp: () => pick(chosen - 1), PageDown: () => pick(chosen + 1), Home: () => look("start") }[event.key];
      if (!act) return;
      act();
      const degrees = (angle) => Math.round(angle * 180 / Math.PI);
      if (event.key.startsWith("Arrow")) say(`seen from ${((degrees(round) % 360) + 360) % 360} degrees round, ${Math.abs(degrees(up))} ${up < 0 ? "below" : "above"}`, 300);
      event.preventDefault();
    });

    tell();
    speak();
    onTheme(paint);
    new ResizeObserver(oncePerFrame(() => {
      const room = stage.clientWidth - 6;
      if (room < 40 || room === width) return;
      width = room;
      height = Math.round(Math.min(1.12 * width, 400));
      paint();
    })).observe(stage);
  },
};
