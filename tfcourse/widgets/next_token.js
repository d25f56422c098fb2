// The likeliest next tokens under temperature, top-k and top-p; each beside what it was before.

const CSS = `
.context { margin: 10px 0 0; padding: 8px 12px; border-radius: 8px; background: var(--raised); font: 14px/1.55 var(--mono);
  white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; max-height: 9em; overflow-y: auto; }
.context i { font-style: normal; display: inline-block; min-width: 1.6em; text-align: center; border-bottom: 2px solid var(--accent); color: var(--accent); }
.after, .after select { min-width: 0; }
.settings { display: grid; gap: 4px; margin: 12px 0 0; }
.settings .field { display: grid; grid-template-columns: 6.2em minmax(60px, 300px) minmax(7.5em, 1fr); }
.settings .field span, .settings .field output { color: var(--ink); line-height: 1.3; }
.settings .mute span, .settings .mute output { color: var(--faint); }
.presets { margin-top: 12px; gap: 6px 8px; }
.left { margin: 10px 0 0; max-width: 74ch; }
.left b { font-variant-numeric: tabular-nums; }
.key { gap: 4px 16px; margin: 6px 0 8px; font-size: 12px; color: var(--faint); }
.key span { display: inline-flex; gap: 6px; align-items: center; }
.key i { flex: none; display: inline-block; position: relative; height: 12px; }
.bars { --columns: minmax(3em, 8.5em) minmax(60px, 1fr) 5.2em 5.2em; margin: 0; padding: 0; list-style: none; }
.bars.counted { --columns: minmax(3em, 8.5em) minmax(60px, 1fr) 5.2em 5.2em 3.6em; }
.bars li { display: grid; grid-template-columns: var(--columns); gap: 0 10px; align-items: center; height: 24px; margin: 0; padding: 0; }
.bars .head span { font-size: 11px; color: var(--faint); }
.bars .number { text-align: end; white-space: nowrap; }
.name { overflow: hidden; text-overflow: ellipsis; text-align: end; font-size: 13px; line-height: 1.4; }
.others .name { font: 12px/1.05 var(--font); white-space: normal; }
.bars .cut .was { opacity: .45; }
.cut .name, .cut .now, .cut .count { color: var(--faint); }
.bars li:not(.cut) + .cut { border-top: 1.5px dashed var(--faint); }
.track { position: relative; height: 24px; border-inline-start: 1px solid var(--faint);
  background: repeating-linear-gradient(to right, transparent 0 calc(25% - 1px), var(--line) calc(25% - 1px) 25%); }
.bar { position: absolute; left: 0; top: 5px; height: 14px; border-radius: 0 3px 3px 0; background: var(--accent); }
.was { position: absolute; top: 2px; width: 3px; height: 20px; margin-left: -1px; border-radius: 2px; background: var(--warm); box-shadow: 0 0 0 1px var(--paper); }
.drawn { position: absolute; top: 7.5px; width: 9px; height: 9px; margin-left: -4.5px; border-radius: 50%; background: var(--paper); border: 2px solid var(--ink); }
.key .bar { width: 16px; top: 0; height: 12px; } .key .was { height: 14px; top: 0; margin: 0; box-shadow: none; } .key .drawn { top: 0; height: 9px; margin: 0; }
.bars:not(.counted) .drawn, .bars:not(.counted) .count, .bars .cut .drawn, .key .counts[hidden] { display: none; }
.ticks { position: relative; height: 1.4em; }
.ticks span { position: absolute; transform: translateX(-50%); }
.draws { margin-top: 10px; gap: 8px 10px; }
@container (max-width: 470px) {
  .bars { --columns: minmax(2.4em, 5.5em) minmax(50px, 1fr) 4.4em; }
  .bars.counted { --columns: minmax(2.4em, 5.5em) minmax(50px, 1fr) 4.4em 3em; }
  .bars li { gap: 0 7px; }
  .bars .plain { display: none; }
  .settings .field { grid-template-columns: 6.3em minmax(50px, 1fr) 7em; }
}
@media (prefers-reduced-motion: no-preference) { .bars .bar { transition: width .12s ease-out; } }
`;

const SHOWN = 14, HOTTEST = 3, MANY = 100;
const PRESETS = {
  greedy: { temperature: 0, top_k: null, top_p: null },
  "as it is": { temperature: 1, top_k: null, top_p: null },
  careful: { temperature: 0.7, top_k: null, top_p: 0.9 },
  wild: { temperature: 1.5, top_k: null, top_p: null },
};

// The odds of every token, likeliest first, from their logits in that order. The same steps as
// `next_token_probabilities` takes: temperature, then top-k, then top-p; what is equal stays equal.
function chances(sorted, { temperature, top_k, top_p }) {
  const p = new Float64Array(sorted.length);
  if (temperature === 0) { p[0] = 1; return p; }
  const raised = (i) => (sorted[i] - sorted[0]) / temperature;
  const least = raised(Math.min(top_k ?? sorted.length, sorted.length) - 1);
  let total = 0;
  for (let i = 0; i < p.length && raised(i) >= least; i++) total += p[i] = Math.exp(raised(i));
  for (let i = 0; i < p.length; i++) p[i] /= total;
  if (top_p === null || top_p === 1) return p;
  let sum = 0, smallest = 0, kept = 0;
  for (const share of p) {
    sum += share;
    if (sum - share >= top_p) break; // what the likelier ones have together
    smallest = share;
  }
  for (let i = 0; i < p.length; i++) { if (p[i] < smallest) p[i] = 0; kept += p[i]; }
  for (let i = 0; i < p.length; i++) p[i] /= kept;
  return p;
}

const entropy = (p) => p.reduce((sum, share) => sum - (share > 0 ? share * Math.log(share) : 0), 0);
const total = (p, from = 0) => { let sum = 0; for (let i = from; i < p.length; i++) sum += p[i]; return sum; };

// Random numbers from 0 to 1, the same row of them for a seed (mulberry32).
function dice(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// The values at which a slider stops: a grid, and the value at which the view starts.
const stops = (grid, own) => [...new Set(own === null || grid.includes(own) ? grid : [...grid, own])].sort((a, b) => a - b);

// Every whole number while they are few; of a large vocabulary ever wider steps.
function counts(most) {
  const list = [];
  for (let k = 1; k < most; k = most <= 200 || k < 20 ? k + 1 : Math.ceil(k * 1.06)) list.push(k);
  return [...list, most];
}

export default {
  async render({ model, el }) {
    const state = model.get("state");
    const { logits } = await unpack(model);
    const [rows, size] = logits.shape;
    const names = state.tokens.map(tokenText);
    const { root, say } = frame(el, { css: CSS, label: state.title });
    const at = { context: 0, temperature: state.temperature, top_k: state.top_k, top_p: state.top_p };
    if (at.top_k === size) at.top_k = null; // all of them
    if (at.top_p === 1) at.top_p = null;

    // ---- one context: its tokens in order, and their odds with nothing changed ----
    let order, sorted, plain;
    function read() {
      const row = logits.array.subarray(at.context * size, (at.context + 1) * size);
      order = Array.from(row.keys()).sort((a, b) => row[b] - row[a] || a - b);
      sorted = Float64Array.from(order, (i) => row[i]);
      plain = chances(sorted, PRESETS["as it is"]);
    }
    read();

    // ---- controls ----
    const hundredths = (from, to, step) => Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => (from + i * step) / 100);
    const settings = {
      temperature: { label: "temperature", list: stops(hundredths(0, 100 * HOTTEST, 5), at.temperature),
        text: (t) => (t === 0 ? "0: greedy" : `${t}${t === 1 ? ": as it is" : t < 1 ? ": sharper" : ": flatter"}`) },
      top_k: { label: "top-k", list: [...stops(counts(size).slice(0, -1), at.top_k), null], text: (k) => (k === null ? "off" : `the likeliest ${k === 1 ? "one" : k}`) },
      top_p: { label: "top-p", list: [...stops(hundredths(1, 99, 1), at.top_p), null], text: (p) => (p === null ? "off" : String(p)) },
    };
    for (const [name, setting] of Object.entries(settings)) {
      setting.node = slider(setting.label, { min: 0, max: setting.list.length - 1, value: setting.list.indexOf(at[name]),
        text: (i) => setting.text(setting.list[i]), onInput: (i) => { at[name] = setting.list[i]; change(); } });
    }
    const presets = Object.entries(PRESETS).map(([name, values]) => button(name, () => {
      Object.assign(at, values);
      for (const [key, { node, list }] of Object.entries(settings)) node.set(list.indexOf(at[key]));
      change();
    }));
    const shorten = (text) => { const letters = [...tokenText(text)]; return letters.length > 36 ? `…${letters.slice(-35).join("")}` : letters.join(""); };
    const chooser = rows > 1 ? select("after", Array.from({ length: rows }, (_, i) => [String(i), state.contexts ? shorten(state.contexts[i]) : `context ${i}`]), "0",
      (value) => { at.context = Number(value); read(); name(); change(); }) : "";
    if (chooser) chooser.classList.add("after");
    const gap = element("i", {}, "?");
    const context = element("p", { className: "context" });
    const left = element("p", { className: "left" });
    const drawButton = button(`draw ${MANY}`, drawMany), clear = button("clear", () => { forget(); update(); say("No draws"); });
    const drawnText = element("span", { className: "faint", role: "note" });
    const counted = element("span", { className: "counts", hidden: true }, element("i", { className: "drawn" }), "its share of the draws");
    const list = element("ul", { className: "bars", "aria-label": "the likeliest tokens" });
    root.append(element("p", { className: "title" }, state.title),
      ...(rows > 1 ? [element("div", { className: "row", style: { "margin-top": "10px" } }, chooser)] : []),
      ...(state.contexts ? [context] : []),
      element("div", { className: "row presets", role: "group", "aria-label": "settings to try" }, ...presets),
      element("div", { className: "settings", role: "group", "aria-label": "settings" }, ...Object.values(settings).map(({ node }) => node)),
      left,
      element("div", { className: "row key", "aria-hidden": "true" }, element("span", {}, element("i", { className: "bar" }), "probability now"),
        element("span", {}, element("i", { className: "was" }), "at temperature 1, nothing left out"), counted),
      list,
      element("div", { className: "row draws" }, drawButton, clear, drawnText));

    // ---- the bars: made once, so that they can move ----
    const own = size > SHOWN + 1 ? SHOWN : size; // a single token is no "1 others"
    const part = (tag, className, ...children) => element(tag, { className }, ...children);
    const ticks = part("span", "ticks number");
    const lines = Array.from({ length: own + (size > own ? 1 : 0) }, () => {
      const parts = { name: part("span", "name token"), bar: part("span", "bar"), was: part("span", "was"), dot: part("span", "drawn"),
        now: part("span", "now number"), plain: part("span", "plain number faint"), count: part("span", "count number") };
      parts.node = element("li", {}, parts.name, part("span", "track", parts.bar, parts.was, parts.dot), parts.now, parts.plain, parts.count);
      return parts;
    });
    if (size > own) lines.at(-1).node.classList.add("others");
    list.append(element("li", { className: "head", "aria-hidden": "true" }, element("span"), ticks,
      part("span", "number", "now"), part("span", "plain number", "before"), part("span", "count number", "drawn")), ...lines.map(({ node }) => node));
    function name() {
      context.replaceChildren(...(state.contexts ? [state.contexts[at.context], gap] : []));
      lines.forEach((line, i) => {
        if (i < own) Object.assign(line.name, { textContent: names[order[i]], title: state.tokens[order[i]] });
      });
    }

    // ---- draws: from the same numbers each time it begins anew ----
    let throws, drawn, draws = 0, p;
    function forget() { throws = dice(1); drawn = new Uint32Array(size); draws = 0; }
    function drawMany() {
      for (let n = 0; n < MANY; n++) {
        let rest = throws(), i = 0;
        while (i < size - 1 && p[i + 1] > 0 && rest >= p[i]) rest -= p[i++];
        drawn[i]++;
      }
      draws += MANY;
      update();
      const most = lines.slice(0, own).map((_, i) => i).filter((i) => drawn[i]).sort((a, b) => drawn[b] - drawn[a]).slice(0, 3);
      say(`${draws} drawn: ${most.map((i) => `${names[order[i]]} ${drawn[i]} times`).join(", ")}`);
    }

    const few = (amount) => Math.exp(amount).toFixed(1).replace(/\.0$/, "");
    const areLeft = (kept) => `${kept === 1 ? "token is" : "tokens are"} left`;
    function summary() {
      const kept = p.reduce((count, x) => count + (x > 0), 0);
      return [kept, entropy(p), entropy(plain)];
    }
    function update() {
      const [kept, now, before] = summary();
      const of = (list, i) => (i < own ? list[i] : total(list, own));
      const values = lines.map((_, i) => ({ now: of(p, i), was: of(plain, i), count: of(drawn, i) }));
      const most = Math.max(...values.flatMap(({ now, was, count }) => [now, was, draws ? count / draws : 0]));
      const end = [0.1, 0.2, 0.4, 0.6, 0.8].find((x) => x >= most) ?? 1;
      ticks.replaceChildren(...[0, 0.5, 1].map((x) => element("span", { style: { left: `${100 * x}%` } }, `${Math.round(100 * x * end)}%`)));
      values.forEach(({ now, was, count }, i) => {
        const line = lines[i], along = (x) => `${100 * x / end}%`;
        line.node.classList.toggle("cut", now === 0);
        if (i === own) { // they share a bar, but need not share a fate
          const inside = kept - own;
          line.name.textContent = `${size - own} others${inside > 0 && inside < size - own ? `, ${inside} left` : ""}`;
        }
        line.bar.style.width = now ? `max(1px, ${along(now)})` : "0";
        line.was.style.left = along(was);
        line.dot.style.left = along(draws ? count / draws : 0);
        line.now.textContent = share(now);
        line.plain.textContent = share(was);
        line.count.textContent = String(count);
        line.node.setAttribute("aria-label", `${line.name.textContent}: ${now ? share(now) : "left out"}, before ${share(was)}${draws ? `, drawn ${count} times` : ""}`);
      });
      list.classList.toggle("counted", draws > 0);
      counted.hidden = draws === 0;
      clear.disabled = draws === 0;
      drawnText.textContent = draws ? `${draws} drawn` : "";
      const bold = (text) => element("b", {}, text);
      left.replaceChildren(bold(`${kept} of ${size}`), ` ${areLeft(kept)}. Entropy `, bold(now.toFixed(2)), " nats",
        ...(kept > 1 ? [": as if choosing among ", bold(few(now)), " that are equally likely"] : [": no choice"]),
        element("span", { className: "faint" }, `. Before: ${before.toFixed(2)} nats, as if among ${few(before)}.`));
      const greedy = at.temperature === 0;
      for (const key of ["top_k", "top_p"]) settings[key].node.classList.toggle("mute", at[key] === null || greedy);
      Object.values(PRESETS).forEach((values, i) => presets[i].setAttribute("aria-pressed",
        String(Object.entries(values).every(([key, value]) => at[key] === value))));
      follow();
    }
    function change() {
      p = chances(sorted, at);
      forget(); // they were drawn from other odds
      update();
      const [kept, now] = summary();
      say(`${lines.slice(0, Math.min(3, own)).filter((_, i) => p[i] > 0).map(({ name: { textContent } }, i) => `${textContent} ${share(p[i])}`).join(", ")}. `
        + `${kept} of ${size} ${areLeft(kept)}, entropy ${now.toFixed(2)} nats${kept > 1 ? `, as if choosing among ${few(now)}` : ""}`, 400);
      model.set("chosen", { ...at });
      model.save_changes();
    }

    const follow = asTable(root, () => ({
      caption: `${size > own ? `The ${own} likeliest of ${size} tokens` : `All ${size} tokens`}${state.contexts ? ` after “${shorten(state.contexts[at.context])}”` : rows > 1 ? `, context ${at.context}` : ""}; `
        + `temperature ${at.temperature}, top-k ${at.top_k ?? "off"}, top-p ${at.top_p ?? "off"}`,
      columns: ["token", "logit", "probability before", "probability now", ...(draws ? [`of ${draws} draws`] : [])],
      rows: lines.map(({ name: { textContent } }, i) => [textContent, i < own ? sorted[i] : "", ...[plain, p].map((list) => (i < own ? list[i] : total(list, own))),
        ...(draws ? [String(i < own ? drawn[i] : total(drawn, own))] : [])]),
    }));
    name();
    change();
  },
};
