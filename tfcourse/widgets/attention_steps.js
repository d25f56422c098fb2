// One small attention in five steps. Scores can be dragged, the mask painted, the temperature turned;
// everything that follows is worked out here.

const CSS = `
.steps { display: flex; flex-wrap: wrap; gap: 6px; margin: 10px 0; }
.says { margin: 0 0 8px; max-width: 52em; min-height: 2.9em; }
.wide { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 3px; }
th { font-weight: 400; color: var(--faint); font-size: 12px; padding: 0 4px; max-width: 8em; overflow: hidden; text-overflow: ellipsis; }
th[scope="row"] { text-align: end; }
td { min-width: 50px; height: 30px; text-align: center; border-radius: 5px; font-size: 12px; padding: 0 3px;
  font-variant-numeric: tabular-nums; user-select: none; cursor: default; }
td.edit { cursor: ns-resize; touch-action: none; }
td.paint { cursor: pointer; }
td.chosen { outline: 2px solid var(--accent); outline-offset: 1px; }
td.total { color: var(--faint); min-width: 44px; }
.work { margin: 10px 0; padding: 8px 12px; background: var(--raised); border-radius: 8px; min-height: 4.6em;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.work b { font-weight: 650; }
.bars { display: flex; gap: 10px; align-items: flex-end; flex-wrap: wrap; }
.bar { display: grid; justify-items: center; font-size: 11px; color: var(--faint); }
.bar i { display: block; width: 30px; background: var(--accent); border-radius: 3px 3px 0 0; }
.follows { display: flex; flex-wrap: wrap; gap: 8px 26px; align-items: flex-end; }
.warn { color: var(--warm); font-weight: 600; }
input[type="range"] { width: min(170px, 40vw); }
input[type="number"] { font: inherit; width: 6.5em; color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 6px; padding: 2px 6px; }
`;

const STEPS = [
  ["1 · QKᵀ", "Every query meets every key: a dot product each. Drag a number up or down, or press + and −, and see what follows."],
  ["2 · ÷ √d_k", "All scores divided by √d_k (and by the temperature, if you turn it): their spread no longer depends on d_k."],
  ["3 · mask", "Click a cell, or press Space, to forbid or allow it. A forbidden score becomes −∞."],
  ["4 · softmax", "exp of each score, divided by the row's sum: each row shares out one unit of attention."],
  ["5 · times V", "Each query's output: the values, mixed by its weights. Columns are the numbers of a value."],
];

const sum = (list) => list.reduce((a, b) => a + b, 0);
const short = (x) => (Math.abs(x) >= 1e-4 || x === 0 ? Number(x.toPrecision(3)).toString().replace("-", "−") : "0.00");
const cell = (x) => (x === -Infinity ? "−∞" : x.toFixed(2).replace("-", "−").replace("−0.00", "0.00"));

export default {
  render({ model, el }) {
    const { tokens, q, k, v, causal, title } = model.get("state");
    const n = tokens.length, d = q[0].length;
    const names = tokens.map(tokenText);
    const { root, say } = frame(el, { css: CSS, label: title });

    const dots = () => q.map((row) => k.map((key) => sum(row.map((x, i) => x * key[i]))));
    const firstMask = () => q.map((_, i) => k.map((_, j) => !causal || j <= i));
    let raw = dots(), mask = firstMask(), temperature = 1, after = false;
    // Begin where there is something to see: at the greatest score.
    const most = raw.flat().indexOf(Math.max(...raw.flat()));
    let step = 0, at = [Math.floor(most / n), most % n];
    const edited = new Set();

    // All of attention, from the scores on.
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
      const output = weights.map((row) => v[0].map((_, c) => sum(row.map((w, j) => w * v[j][c]))));
      return { scaled, masked, weights, output };
    }

    const steps = element("div", { className: "steps", role: "group", "aria-label": "steps" },
      ...STEPS.map(([name], i) => button(name, () => { step = i; draw(); })));
    const says = element("p", { className: "says faint" });
    const table = element("table", { role: "grid", "aria-label": "numbers of this step" });
    const working = element("div", { className: "work" });
    const follows = element("div", { className: "follows" });
    const heat = slider("temperature", { min: -20, max: 20, value: 0, text: (x) => digits(10 ** (x / 20)),
      onInput: (x) => { temperature = 10 ** (x / 20); draw(); } });
    const order = button("put 0 after the softmax instead", () => { after = !after; draw(); });
    const field = element("input", { type: "number", step: "0.5", onInput: () => {
      if (Number.isFinite(field.valueAsNumber)) setScore(...at, field.valueAsNumber, true);
    } });
    const fieldLabel = element("label", { className: "field" }, element("span", {}, "score"), field);
    const reset = button("reset", () => {
      raw = dots(); mask = firstMask(); temperature = 1; after = false; edited.clear(); heat.set(0); draw();
    });
    root.append(element("p", { className: "title" }, title), steps, says, element("div", { className: "wide" }, table),
      working, follows, element("div", { className: "row", style: { "margin-top": "12px" } }, heat, fieldLabel, order, reset));

    function setScore(i, j, value, typing = false) {
      raw[i][j] = Math.max(-99, Math.min(99, value));
      edited.add(i * n + j);
      draw(typing);
    }
    function toggle(i, j) { mask[i][j] = !mask[i][j]; draw(); }

    // ---- the table ----
    let cells = [];
    function build(columns) {
      const isOutput = step === 4;
      const head = element("tr", {}, element("td"), ...Array.from({ length: columns }, (_, j) =>
        element("th", { scope: "col", className: "token" }, isOutput ? `v${j}` : names[j])));
      cells = names.map(() => []);
      const rows = names.map((name, i) => element("tr", {}, element("th", { scope: "row", className: "token" }, name),
        ...Array.from({ length: columns }, (_, j) => {
          const node = element("td", { role: "gridcell", onPointerEnter: () => { if (!held()) go(i, j); }, onFocus: () => go(i, j),
            onPointerDown: (event) => press(event, i, j) });
          cells[i].push(node);
          return node;
        }), ...(step === 3 ? [element("td", { className: "total number" })] : [])));
      if (step === 3) head.append(element("th", {}, "sum"));
      table.replaceChildren(head, ...rows);
    }

    let dragging = false;
    // A cell that has the focus keeps it: the pointer may go elsewhere until Escape.
    const held = () => table.contains(table.getRootNode().activeElement);
    function press(event, i, j) {
      go(i, j);
      if (step === 2) { toggle(i, j); return; }
      if (step > 1) return;
      const from = event.clientY, start = raw[i][j];
      dragging = true;
      const node = cells[i][j];
      node.setPointerCapture?.(event.pointerId);
      const move = (now) => setScore(i, j, start + Math.round((from - now.clientY) / 2) / 4);
      const stop = () => { dragging = false; node.removeEventListener("pointermove", move); };
      node.addEventListener("pointermove", move);
      node.addEventListener("pointerup", stop, { once: true });
      node.addEventListener("pointercancel", stop, { once: true });
      event.preventDefault();
      node.focus({ preventScroll: true });
    }

    table.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const [i, j] = at;
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (move) {
        const to = [Math.min(n - 1, Math.max(0, i + move[0])), Math.min(cells[0].length - 1, Math.max(0, j + move[1]))];
        cells[to[0]][to[1]].focus();
      } else if (step === 2 && (event.key === " " || event.key === "Enter")) toggle(i, j);
      else if (step < 2 && "+=".includes(event.key)) setScore(i, j, raw[i][j] + 0.5);
      else if (step < 2 && "-−_".includes(event.key)) setScore(i, j, raw[i][j] - 0.5);
      else if (event.key === "PageDown" || event.key === "PageUp") {
        step = Math.min(4, Math.max(0, step + (event.key === "PageDown" ? 1 : -1)));
        draw();
        cells[at[0]][at[1]].focus();
      } else if (event.key === "Escape") event.target.blur();
      else return;
      event.preventDefault();
    });

    function go(i, j) {
      if (dragging || (at[0] === i && at[1] === j)) return;
      at = [i, j];
      draw();
    }

    // ---- drawing ----
    let built = -1;
    function draw(typing = false) {
      const now = work();
      const shown = [raw, now.scaled, now.masked, now.weights, now.output][step];
      if (built !== step) { build(shown[0].length); built = step; }
      at[1] = Math.min(at[1], shown[0].length - 1);
      [...steps.children].forEach((node, i) => node.setAttribute("aria-pressed", String(i === step)));
      says.textContent = STEPS[step][1];
      order.setAttribute("aria-pressed", String(after));

      const finite = shown.flat().filter(Number.isFinite);
      const [low, high] = step >= 3 ? [0, Math.max(1e-9, ...finite)] : [Math.min(...finite, 0), Math.max(...finite, 1e-9)];
      shown.forEach((row, i) => {
        row.forEach((x, j) => {
          const node = cells[i][j];
          const blocked = x === -Infinity || (step === 2 && !mask[i][j]) || (step === 3 && !mask[i][j]);
          const color = blocked ? colorAt(`${MASKED} ${MASKED}`, 0) : colorAt(VIRIDIS, (x - low) / (high - low || 1));
          node.textContent = (edited.has(i * n + j) && step === 0 ? "✎ " : "") + cell(x);
          node.style.background = css(color);
          node.style.color = inkOn(color);
          node.className = `${i === at[0] && j === at[1] ? "chosen" : ""} ${step < 2 ? "edit" : step === 2 ? "paint" : ""}`;
          node.tabIndex = i === at[0] && j === at[1] ? 0 : -1;
          node.setAttribute("aria-label", step < 4 ? `${names[i]} to ${names[j]}: ${cell(x)}${mask[i][j] ? "" : ", masked"}`
            : `output of ${names[i]}, number ${j}: ${cell(x)}`);
        });
        if (step === 3) table.rows[i + 1].lastChild.textContent = cell(sum(row));
      });

      const [i, j] = at;
      if (!typing) field.value = String(Number(raw[i][Math.min(j, n - 1)].toFixed(3)));
      fieldLabel.style.visibility = step < 2 ? "visible" : "hidden";
      const words = explain(now, i, j);
      working.replaceChildren(...words);
      drawRow(now, i);
      if (!dragging) say(working.textContent, 350);
    }

    // The arithmetic of the cell in numbers.
    function explain({ scaled, masked, weights, output }, i, j) {
      const bold = (text) => element("b", { className: "number" }, text);
      const pair = `${names[i]} → ${names[j]}`;
      if (step === 0) {
        if (edited.has(i * n + j)) return [`${pair}: you set this score to `, bold(short(raw[i][j])), "."];
        const terms = q[i].map((x, c) => [x, k[j][c]]);
        const telling = terms.filter(([a, b]) => a * b !== 0);
        const left = terms.length - telling.length;
        const text = telling.map(([a, b]) => `${short(a)}·${short(b)}`).join(" + ") || "0";
        return [`${pair}: q·k = ${text}${left && telling.length ? ` (+ ${left} products that are 0)` : ""} = `, bold(short(raw[i][j]))];
      }
      if (step === 1) {
        const by = temperature === 1 ? "" : ` / ${digits(temperature)}`;
        return [`${pair}: ${short(raw[i][j])} / √${d}${by} = `, bold(short(scaled[i][j]))];
      }
      if (step === 2) {
        if (mask[i][j]) return [`${pair}: may attend, the score stays `, bold(short(scaled[i][j]))];
        if (after) return [`${pair}: forbidden, but its score stays until the softmax has been taken: `, bold(short(scaled[i][j]))];
        return [`${pair}: forbidden, the score becomes `, bold("−∞")];
      }
      if (step === 3) {
        if (masked[i].every((x) => x === -Infinity)) return [`${names[i]} may attend to nothing: 0/0. This course gives `, bold("zeros"), "."];
        if (!mask[i][j] && after) return [`${pair}: put to 0 after the softmax had shared out ${short(Math.exp(masked[i][j]) / sum(masked[i].map(Math.exp)))}. The row sums to `, bold(short(sum(weights[i]))), ", not 1."];
        if (!mask[i][j]) return [`${pair}: exp(−∞) = 0, so the weight is `, bold("0")];
        const raised = masked[i].map((x) => Math.exp(x));
        return [`${pair}: exp(${short(masked[i][j])}) / (${raised.map(short).join(" + ")}) = ${short(raised[j])} / ${short(sum(raised))} = `, bold(short(weights[i][j]))];
      }
      const terms = weights[i].map((w, t) => `${short(w)}·${short(v[t][j])}`);
      return [`output of ${names[i]}, number ${j}: ${terms.join(" + ")} = `, bold(short(output[i][j]))];
    }

    // What follows for the row of the chosen cell: its weights, their entropy, the output.
    function drawRow({ weights, output }, i) {
      const row = weights[i];
      const total = sum(row);
      const entropy = -sum(row.map((w) => (w > 0 ? w * Math.log(w) : 0)));
      const whole = Math.abs(total - 1) < 1e-6;
      follows.replaceChildren(
        element("div", { className: "bars", role: "img", "aria-label": `weights of ${names[i]}` }, ...row.map((w, j) =>
          element("div", { className: "bar number" }, cell(w), element("i", { style: { height: `${Math.round(52 * w) + 1}px` } }),
            element("span", { className: "token" }, names[j])))),
        element("div", { className: "number" },
          element("div", {}, "query ", element("b", { className: "token" }, names[i])),
          element("div", { className: whole ? "faint" : "warn" }, `weights sum to ${short(total)}${total === 0 ? ": nothing to attend, zeros" : whole ? "" : ", not to 1"}`),
          element("div", { className: "faint" }, `entropy ${digits(entropy)}`),
          element("div", { className: "faint" }, `output [${output[i].map(cell).join(", ")}]`)));
    }

    draw();
  },
};
