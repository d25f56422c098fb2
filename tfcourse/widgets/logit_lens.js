// What the model would say next if it ended after 0, 1, … blocks: a grid of places and layers.

const CSS = `
.controls { margin: 10px 0 8px; gap: 8px 18px; }
.controls .field, .controls select { min-width: 0; }
.scale { display: inline-flex; gap: 7px; align-items: center; font-size: 12px; color: var(--faint); }
.scale i { width: 110px; height: 10px; border-radius: 5px; }
.box { overflow-x: auto; max-width: 100%; padding: 3px 0; border-radius: 4px; width: fit-content; }
.grid { border-collapse: separate; border-spacing: 2px; margin: 0; font-size: 12px; }
.grid th, .grid td { padding: 0; height: 33px; text-align: center; font-weight: 400; border: 0; }
.grid tbody th, .grid .corner { position: sticky; left: 0; z-index: 2; background: var(--paper); text-align: start; white-space: nowrap; padding: 0 8px 0 0; line-height: 1.2; min-width: 7.6em; color: var(--ink); }
.grid tbody th small { display: block; font-size: 11px; color: var(--faint); font-variant-numeric: tabular-nums; }
.grid .corner { color: var(--faint); }
.grid thead th, .grid tfoot th { height: 26px; max-width: 92px; }
.grid thead th:not(.corner) { font-weight: 650; }
.grid .token { display: block; overflow: hidden; text-overflow: ellipsis; padding: 0 3px; }
.grid .on, .grid tbody th.on { color: var(--accent); }
.grid .on .token { text-decoration: underline; text-decoration-thickness: 2px; text-underline-offset: 4px; }
.cell { position: relative; min-width: 54px; max-width: 92px; border-radius: 4px; cursor: pointer; }
.cell.none { background: repeating-linear-gradient(135deg, var(--raised) 0 5px, var(--line) 5px 6px) !important; color: var(--ink) !important; }
.cell.right::before { content: ""; position: absolute; inset: 2px; border: 2px solid currentColor; border-radius: 3px; }
.cell.right .token { font-weight: 700; padding-inline: 6px 15px; }
.cell.right::after { content: "✓" / ""; position: absolute; top: 4px; right: 6px; font: 700 11px/1.2 var(--font); }
.cell.over { outline: 2px dashed var(--ink); outline-offset: 1px; z-index: 1; }
.cell:focus, .cell.at { outline: 2px solid var(--ink); outline-offset: 1px; z-index: 1; }
.cell:focus-visible { outline: 3px solid var(--accent); }
.readout { margin: 12px 0 0; display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.15fr); gap: 4px 26px; min-height: 8.6em; align-items: start; }
.readout p { margin: 0 0 4px; max-width: 62ch; overflow-wrap: anywhere; }
.readout .token { white-space: pre-wrap; overflow-wrap: anywhere; }
.read { background: var(--raised); border-radius: 5px; padding: 1px 5px; }
.known { color: var(--good); font-weight: 650; }
.bars { display: grid; grid-template-columns: minmax(2.5em, 9em) minmax(50px, 1fr) 4.2em; gap: 4px 8px; align-items: center; }
.bars .token { overflow: hidden; text-overflow: ellipsis; text-align: end; white-space: pre; }
.bars .is { font-weight: 700; }
.bars .track { height: 13px; border-inline-start: 1px solid var(--faint); }
.bars b { display: block; height: 13px; border-radius: 0 3px 3px 0; background: var(--accent); }
.bars .number { text-align: end; }
@container (max-width: 560px) { .readout { grid-template-columns: minmax(0, 1fr); min-height: 15em; } .grid tbody th, .grid .corner { min-width: 5.4em; padding-inline-end: 4px; } }
@container (max-width: 420px) { .out { display: none; } .grid .corner { white-space: normal; } }
`;

const MODES = {
  likeliest: "probability of the likeliest token",
  actual: "probability of the token that comes next",
  rank: "rank of the token that comes next",
  entropy: "entropy",
};
const AROUND = 40; // letters of the text that are shown before a place

export default {
  async render({ model, el }) {
    const state = model.get("state");
    const { chances, actual, rank, entropy } = await unpack(model);
    const [layers, places, likeliest] = chances.shape;
    const words = state.words.map(tokenText), text = state.text.map((i) => words[i]);
    const { root, say } = frame(el, { css: CSS, label: state.title });
    const layerName = (l) => (l === 0 ? "embedding" : `${l} block${l > 1 ? "s" : ""}`);
    const after = (l) => (l === 0 ? "with the embedding alone" : `after ${layerName(l)}${l === layers - 1 ? ", the output" : ""}`);

    const known = (i) => i + 1 < places; // whether the next token is
    const value = (block, l, i) => block.array[l * places + i];
    const topOf = (l, i) => Array.from({ length: likeliest }, (_, n) => {
      const place = (l * places + i) * likeliest + n;
      return { id: state.top[place], p: chances.array[place] };
    });
    const isRight = (l, i) => value(rank, l, i) === 1;
    const rights = Array.from({ length: layers }, (_, l) => text.filter((_, i) => isRight(l, i)).length);

    let mode = "likeliest", at = [layers - 1, Math.min(1, places - 1)], over = null;
    // What a cell's color says, and where on the scale it lies: what knows more is brighter.
    const most = { rank: Math.log(state.vocabulary) || 1, entropy: Math.log(state.vocabulary) || 1 };
    const shown = {
      likeliest: (l, i) => topOf(l, i)[0].p,
      actual: (l, i) => value(actual, l, i),
      rank: (l, i) => value(rank, l, i),
      entropy: (l, i) => value(entropy, l, i),
    };
    const bright = { likeliest: (x) => x, actual: (x) => x, rank: (x) => 1 - Math.log(x) / most.rank, entropy: (x) => 1 - x / most.entropy };
    const needs = () => mode === "actual" || mode === "rank"; // a next token
    const written = { likeliest: share, actual: share, rank: String, entropy: (x) => `${x.toFixed(2)} nats` };
    const ends = { likeliest: ["0%", "100%"], actual: ["0%", "100%"], rank: [`rank ${state.vocabulary}`, "rank 1"], entropy: [`${most.entropy.toFixed(1)} nats`, "0"] };

    // ---- controls and grid ----
    const low = element("span"), high = element("span"), ramp = element("i");
    ramp.style.background = `linear-gradient(to right, ${Array.from({ length: 9 }, (_, i) => css(colorAt(VIRIDIS, i / 8))).join(", ")})`;
    const choose = select("color", Object.entries(MODES), mode, (chosen) => { mode = chosen; paint(); say(`Color: ${MODES[mode]}`); });
    const token = (id, name = words[id]) => element("span", { className: "token", title: state.words[id] }, name);
    const head = (scope, ...children) => element("th", { scope }, ...children);
    const corner = (words) => element("th", { className: "corner", scope: "row" }, words);
    const nexts = text.map((_, i) => head("col", known(i) ? token(state.text[i + 1]) : element("span", { className: "token faint", title: "the text ends here" }, "?")));
    const reads = state.text.map((id) => element("td", {}, token(id)));
    const cells = Array.from({ length: layers }, (_, l) => text.map((_, i) => {
      const node = element("td", { className: "cell", role: "gridcell", tabIndex: -1 }, token(topOf(l, i)[0].id));
      node.classList.toggle("right", isRight(l, i));
      node.addEventListener("pointerenter", (event) => { if (event.pointerType !== "touch") { over = [l, i]; mark(); } });
      node.addEventListener("click", () => visit(l, i));
      node.addEventListener("focus", () => { if (at[0] !== l || at[1] !== i) visit(l, i); });
      return node;
    }));
    const heads = cells.map((_, l) => element("th", { scope: "row", role: "rowheader" }, layerName(l), l && l === layers - 1 ? element("span", { className: "out" }, " = output") : "",
      element("small", {}, `✓ ${rights[l]} of ${places - 1}`)));
    const rows = cells.map((row, l) => element("tr", { role: "row" }, heads[l], ...row));
    const grid = element("table", { className: "grid", role: "grid", "aria-label": "what each layer would say next, output on top" },
      element("thead", {}, element("tr", { role: "row" }, corner("next is"), ...nexts)),
      element("tbody", {}, ...rows.reverse()),
      element("tfoot", {}, element("tr", { role: "row" }, corner("what is read"), ...reads)));
    const box = element("div", { className: "box" }, grid);
    const said = element("div"), bars = element("div", { className: "bars", role: "list", "aria-label": "the likeliest tokens of this cell" });
    root.append(element("p", { className: "title" }, state.title),
      element("div", { className: "row controls" }, choose, element("span", { className: "scale", "aria-hidden": "true" }, low, ramp, high),
        element("span", { className: "scale" }, "✓ and a frame: right already")),
      box, element("div", { className: "readout" }, said, bars));
    grid.addEventListener("pointerleave", () => { over = null; mark(); });

    function paint() {
      [low.textContent, high.textContent] = ends[mode];
      cells.forEach((row, l) => row.forEach((node, i) => {
        const none = needs() && !known(i);
        node.classList.toggle("none", none);
        const color = colorAt(VIRIDIS, none ? 0 : bright[mode](shown[mode](l, i)));
        node.style.background = css(color);
        node.style.color = inkOn(color);
        node.setAttribute("aria-label", label(l, i));
      }));
      mark();
      follow();
    }
    function label(l, i) {
      const [first] = topOf(l, i);
      const next = known(i) ? `; ${words[state.text[i + 1]]} comes next${isRight(l, i) ? ", right" : `, rank ${value(rank, l, i)}`}` : "; the text ends here";
      return `${text[i]}, ${after(l)}: ${words[first.id]} ${share(first.p)}${next}${mode === "entropy" ? `; entropy ${written.entropy(shown.entropy(l, i))}` : ""}`;
    }

    // ---- the cell in hand ----
    let marked = [];
    function mark() {
      const [l, i] = over ?? at;
      for (const node of marked) node.classList.remove("on", "over", "at");
      marked = [heads[l], nexts[i], reads[i], cells[l][i], cells[at[0]][at[1]]];
      for (const node of marked.slice(0, 3)) node.classList.add("on");
      if (over) cells[l][i].classList.add("over");
      cells[at[0]][at[1]].classList.add("at");
      const top = topOf(l, i), next = state.text[i + 1];
      const before = i ? [...tokenText(state.text.slice(0, i).map((id) => state.words[id]).join(""))] : [];
      const chip = (id, name = "") => element("span", { className: `token read ${name}` }, words[id]); // a space at its start is seen
      const b = (content) => element("b", {}, content);
      said.replaceChildren(
        element("p", {}, element("span", { className: "token read" }, before.length > AROUND ? "…" : "", before.slice(-AROUND).join(""), b(text[i]))),
        element("p", {}, after(l)[0].toUpperCase(), after(l).slice(1), ", the model would say ", b(chip(top[0].id)), "."),
        known(i)
          ? element("p", {}, "What comes next is ", chip(next, "known"), ": ",
            isRight(l, i) ? "right, with " : `rank ${value(rank, l, i)} of ${state.vocabulary}, with `, b(share(value(actual, l, i))), ".")
          : element("p", {}, "The text ends here: what comes next is not known."),
        element("p", { className: "faint" }, `Entropy ${value(entropy, l, i).toFixed(2)} nats, as if choosing among ${Math.exp(value(entropy, l, i)).toFixed(1).replace(/\.0$/, "")}.`));
      const longest = Math.max(top[0].p, 0.1);
      bars.replaceChildren(...top.flatMap(({ id, p }) => {
        const is = known(i) && id === next;
        const name = element("span", { className: is ? "token known is" : "token", title: state.words[id], role: "listitem" }, is ? `✓ ${words[id]}` : words[id]);
        const bar = element("b", { style: { width: `max(1px, ${100 * p / longest}%)` } });
        return [name, element("span", { className: "track", "aria-hidden": "true" }, bar), element("span", { className: "number" }, share(p))];
      }));
    }
    function reveal(l, node) { // the browser leaves it under the names of the layers
      const cell = node.getBoundingClientRect(), [from, to] = [heads[l].getBoundingClientRect().right + 4, box.getBoundingClientRect().right - 4];
      box.scrollLeft -= Math.max(0, from - cell.left) || Math.min(0, to - cell.right);
    }
    function visit(l, i) {
      cells[at[0]][at[1]].tabIndex = -1;
      at = [l, i];
      over = null;
      const node = cells[l][i];
      node.tabIndex = 0;
      mark();
      follow();
      if (root.getRootNode().activeElement !== node) node.focus();
      reveal(l, node);
      say(topOf(l, i).slice(1).map(({ id, p }) => `then ${words[id]} ${share(p)}`).join(", "), 500);
      model.set("chosen", { layer: l, token: i });
      model.save_changes();
    }
    cells[at[0]][at[1]].tabIndex = 0;
    grid.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      const [l, i] = at;
      const to = {
        ArrowUp: [l + 1, i], ArrowDown: [l - 1, i], ArrowLeft: [l, i - 1], ArrowRight: [l, i + 1],
        Home: [l, 0], End: [l, places - 1], PageUp: [layers - 1, i], PageDown: [0, i],
      }[event.key];
      if (!to) return;
      event.preventDefault();
      visit(clamp(to[0], 0, layers - 1), clamp(to[1], 0, places - 1));
    });

    // ---- as tables: the grid, the layers, the cell ----
    const follow = asTable(root, () => {
      const up = Array.from({ length: layers }, (_, l) => l), mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;
      const inCell = (l, i) => `${words[topOf(l, i)[0].id]} ${needs() && !known(i) ? "–" : written[mode](shown[mode](l, i))}${isRight(l, i) ? " ✓" : ""}`;
      const all = text.map((_, i) => i), [l, i] = at;
      return [
        { caption: `The likeliest token of each layer, and the ${MODES[mode]}; ✓: right`, columns: ["read", "next", ...up.map(layerName)],
          rows: all.map((i) => [text[i], known(i) ? text[i + 1] : "?", ...up.map((l) => inCell(l, i))]) },
        { caption: `The layers, over ${places - 1} places whose next token is known`, columns: ["layer", "right", "mean probability of the next token", "mean entropy"],
          rows: up.map((l) => [layerName(l), String(rights[l]), mean(all.filter(known).map((i) => value(actual, l, i))), mean(all.map((i) => value(entropy, l, i)))]) },
        { caption: `The likeliest after ${text[i]}, ${after(l)}`, columns: ["token", "probability"], rows: topOf(l, i).map(({ id, p }) => [words[id], p]) },
      ];
    });
    paint();
  },
};
