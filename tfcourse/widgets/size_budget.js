// How large a model is, before it is built: parameters, memory and operations by part. The same
// numbers as tfcourse/sizing.py, in BigInt: they are equal to the last digit.

const CSS = `
.row.top { margin: 10px 0 8px; gap: 8px 12px; }
.sizes { display: grid; grid-template-columns: repeat(auto-fill, minmax(98px, 1fr)); gap: 8px 12px; }
.sizes.use { grid-template-columns: repeat(3, 1fr); }
.size { display: grid; gap: 1px; color: var(--faint); min-width: 0; }
.size input[type="range"] { width: 100%; margin: 3px 0 0; }
input[type="number"] { font: inherit; font-variant-numeric: tabular-nums; width: 100%; min-width: 0; color: var(--ink);
  background: var(--paper); border: 1px solid var(--line); border-radius: 6px; padding: 2px 7px; }
input[aria-invalid="true"] { border-color: var(--warm); outline-color: var(--warm); }
.kind { font-size: 12px; margin: 6px 0 0; }
.wrong { margin: 12px 0 0; padding: 7px 12px; border: 1px solid var(--warm); border-radius: 8px; }
.wrong .row { margin-top: 5px; }
.body { display: grid; gap: 12px; margin-top: 14px; align-items: stretch; }
.card { background: var(--raised); border-radius: 9px; padding: 10px 12px; min-width: 0; }
.card h4 { margin: 0 0 8px; font-size: 13px; font-weight: 400; color: var(--faint); }
.card h4 b { display: block; font-size: 18px; font-weight: 650; color: var(--ink); font-variant-numeric: tabular-nums; line-height: 1.3; }
.part { display: grid; grid-template-columns: 5.8em minmax(0, 1fr) 7.5em 2.8em; gap: 8px; align-items: center; padding: 2px 0; font-variant-numeric: tabular-nums; }
.part[hidden], button[hidden] { display: none; }
.part b { font-weight: 600; text-align: end; white-space: nowrap; }
.part .share { color: var(--faint); text-align: end; white-space: nowrap; }
.bar { height: 12px; background: var(--paper); border-radius: 3px; overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--tint); border-radius: 3px; }
.stack { position: relative; padding-top: 19px; margin: 2px 0 9px; }
.track { display: flex; gap: 2px; height: 20px; background: var(--paper); border-radius: 4px; overflow: hidden; }
.track i { background: var(--tint); flex: none; }
.limit { position: absolute; top: 17px; height: 24px; width: 0; border-inline-start: 2px dashed var(--ink); margin-inline-start: -1px; }
.limit-name { position: absolute; top: 0; font-size: 12px; white-space: nowrap; font-variant-numeric: tabular-nums; }
.verdict { margin: 0 0 8px; font-weight: 600; text-wrap: pretty; }
.verdict .mark { display: inline-block; width: 1.3em; }
.verdict.yes .mark { color: var(--good); } .verdict.no .mark { color: var(--warm); }
.verdict button { font-weight: 400; margin-inline-start: 6px; background: var(--paper); }
.facts { display: grid; gap: 10px 18px; margin-top: 12px; border-top: 1px solid var(--line); padding-top: 10px; font-variant-numeric: tabular-nums; }
.facts b { display: block; font-size: 15px; font-weight: 650; }
.facts small { display: block; font-size: 12px; color: var(--faint); text-wrap: pretty; }
.key { font-size: 12px; margin: 10px 0 0; text-wrap: pretty; }
.attention, .weights { --tint: var(--blue); } .gradients { --tint: var(--sky); }
.feed_forward, .optimizer { --tint: var(--good); } .norms { --tint: var(--faint); }
.head, .activations { --tint: var(--warm); } .embedding, .loss, .cache { --tint: var(--purple); }
.view { --blue: #0072b2; --sky: #4b96cc; --purple: #a3507f; }
.view.dark { --blue: #4fa3e0; --sky: #a5d3f2; --purple: #dd8fbd; }
@container (min-width: 650px) {
  .sizes:not(.use) { grid-template-columns: repeat(6, 1fr); }
  .body { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .facts { grid-template-columns: repeat(3, minmax(0, 1fr)); }
}
@media (prefers-reduced-motion: no-preference) { .bar i, .track i, .limit { transition: width .18s, left .18s; } }
`;

// ---------------------------------------------------------------- the formulas of sizing.py

const HALF_BYTES = { float32: 8n, bfloat16: 4n, int8: 2n, int4: 1n }; // of a number
const sum = (parts) => Object.values(parts).reduce((a, b) => a + b, 0n);
const largest = (parts) => Object.values(parts).reduce((a, b) => (a > b ? a : b), 0n);
const big = (sizes) => Object.fromEntries(Object.entries(sizes).map(([name, value]) =>
  [name, Number.isInteger(value) ? BigInt(value) : value]));
const kvWidth = ({ d_model, n_heads, n_kv_heads }) => n_kv_heads * (d_model / n_heads);

function parameters({ vocabulary, d_model: d, layers, d_ff, gated, tied, bias: biased, norm: kind, norm_first,
  positions, max_tokens, segments, embedding_norm, ...heads }) {
  const bias = biased ? 1n : 0n, norm = kind === "layer" ? 2n * d : d;
  const wide = d + 2n * kvWidth({ d_model: d, ...heads }), up = (gated ? 2n : 1n) * d_ff;
  const tables = vocabulary + segments + (positions === "learned" ? max_tokens : 0n);
  return {
    embedding: tables * d + (embedding_norm ? norm : 0n),
    attention: layers * (d + bias) * (wide + d),
    feed_forward: layers * ((d + bias) * up + (d_ff + bias) * d),
    norms: layers * 2n * norm + (norm_first ? norm : 0n),
    head: tied ? 0n : vocabulary * d,
  };
}

// Of a forward pass over one text.
function operations(config, tokens) {
  const { attention, feed_forward } = parameters({ ...config, bias: false });
  const { vocabulary, layers, d_model: d } = config;
  const matrices = 2n * (attention + feed_forward + vocabulary * d) * tokens;
  return { matrices, scores: 4n * layers * d * (tokens * (tokens + 1n) / 2n) };
}

function activations(config, tokens, checkpointing, size) {
  const { vocabulary, d_model: d, n_heads, layers, d_ff, gated, norm: kind, norm_first, positions, embedding_norm } = config;
  const kv = kvWidth(config), rotary = positions === "rotary", alibi = positions === "alibi";
  const dropped = config.dropout ? d : 0n;
  const norm = kind === "layer" ? d * size : 2n * d * (size > 4n ? size : 4n);
  let attention = d + (d + 2n * kv) + d;
  if (rotary) attention += d + kv;
  if (alibi || (rotary && config.rotary_layout === "interleaved")) attention += d;
  if (alibi) attention += n_heads * tokens;
  const hidden = ((gated ? 4n : 2n) - (config.activation === "relu" ? 1n : 0n)) * d_ff;
  const block = 2n * norm + (attention + d + hidden + 2n * dropped) * size;
  const blocks = checkpointing ? layers * d * size + block : layers * block;
  const ends = norm * ((norm_first ? 1n : 0n) + (embedding_norm ? 1n : 0n));
  const kept = blocks + ends + (dropped + d + vocabulary) * size;
  const loss = 2n * vocabulary * size - (checkpointing ? block : 0n);
  return { kept: tokens * kept, loss: tokens * (loss > 0n ? loss : 0n) };
}

// What each of so many devices holds.
function memory(config, use, devices) {
  const count = sum(parameters(config)), half = HALF_BYTES[use.precision];
  const weights = count * half / 2n / devices;
  if (use.what_for === "write") {
    const size = use.precision === "float32" ? 4n : 2n;
    return { weights, cache: 2n * config.layers * kvWidth(config) * use.tokens * use.batch * size / devices };
  }
  const size = half / 2n, { kept, loss } = activations(config, use.tokens, use.checkpointing, size);
  return {
    weights, gradients: weights, optimizer: count * (8n + (size < 4n ? 4n : 0n)) / devices,
    activations: use.batch * kept, loss: use.batch * loss,
  };
}

function fewestDevices(config, use, room, most) {
  const needs = (devices) => sum(memory(config, use, devices));
  let few = 1n, many = most;
  if (needs(many) > room) return null;
  while (few < many) {
    const middle = (few + many) / 2n;
    if (needs(middle) <= room) many = middle; else few = middle + 1n;
  }
  return few;
}

// ---------------------------------------------------------------- words

const COUNT = ["", " thousand", " million", " billion", " trillion"];
const BYTES = [" B", " kB", " MB", " GB", " TB", " PB", " EB"];

// 6.7 billion, 13.5 GB, 175 billion, 2.2 × 10¹⁵; in whole numbers, as `amount` in size_budget.py.
function amount(number, names) {
  if (number < 1000n) return `${number}${names[0]}`;
  for (let power = 1; power < names.length; power++) {
    const unit = 1000n ** BigInt(power);
    const tenths = (10n * number + unit / 2n) / unit, ones = (number + unit / 2n) / unit;
    if (tenths < 1000n) return `${tenths / 10n}.${tenths % 10n}${names[power]}`;
    if (ones < 1000n || (names === BYTES && power === names.length - 1)) return `${ones}${names[power]}`;
  }
  let zeros = String(number).length - 1;
  let tenths = (10n * number + 10n ** BigInt(zeros) / 2n) / 10n ** BigInt(zeros);
  if (tenths === 100n) { zeros += 1; tenths = 10n; }
  return `${tenths / 10n}.${tenths % 10n} × 10${String(zeros).replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit])}`;
}

const exact = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
const part = (size, total) => (total ? Number(size) / Number(total) : 0);
const NAMES = { feed_forward: "MLP", cache: "KV cache" };
const called = (name) => NAMES[name] ?? name;
const plural = (count, what) => `${count} ${what}${count > 1 ? "s" : ""}`;

// rotary positions, RMSNorm, no biases: what is of the preset and cannot be set here
function inKind({ positions, max_tokens, norm, norm_first, bias, activation, segments }) {
  const places = { none: "no positions", learned: `${max_tokens} learned positions`, alibi: "ALiBi" }[positions] ?? `${positions} positions`;
  return [places, segments ? `${segments} segments` : "", `${norm === "layer" ? "LayerNorm" : "RMSNorm"} ${norm_first ? "before" : "after"} each part`,
    bias ? "biases" : "no biases", activation.replace("_", ", ")].filter(Boolean).join(" · ");
}

// ---------------------------------------------------------------- what cannot be

// The divisor of `whole` nearest to `number`; of two, the smaller.
function nearestDivisor(number, whole) {
  for (let gap = 0; ; gap++) {
    for (const d of [number - gap, number + gap]) if (d >= 1 && whole % d === 0) return d;
  }
}

// What is wrong in words, the field that it is about, and a value that would do; null where all works.
function trouble(wanted, works, most) {
  for (const [name, greatest] of Object.entries(most)) {
    const value = wanted[name];
    if (Number.isInteger(value) && value >= 1 && value <= greatest) continue;
    const take = Number.isFinite(value) ? clamp(Math.round(value), 1, greatest) : works[name];
    return { name, take, words: `${name} must be a whole number from 1 to ${greatest}.` };
  }
  const { d_model, n_heads, n_kv_heads, positions, max_tokens, tokens } = wanted;
  if (d_model % n_heads) {
    return { name: "n_heads", take: nearestDivisor(n_heads, d_model), words: `n_heads = ${n_heads} does not divide d_model = ${d_model}: the heads would not be equal.` };
  }
  if (n_heads % n_kv_heads) {
    return { name: "n_kv_heads", take: nearestDivisor(n_kv_heads, n_heads), words: `n_kv_heads = ${n_kv_heads} does not divide n_heads = ${n_heads}: the heads of q could not share those of k and v evenly.` };
  }
  if (positions === "rotary" && (d_model / n_heads) % 2) {
    return { name: "n_heads", words: `A head would have d_model / n_heads = ${d_model / n_heads} numbers: rotary positions turn pairs, so they must be even.` };
  }
  if (positions === "learned" && tokens > max_tokens) {
    return { name: "tokens", take: max_tokens, words: `tokens = ${tokens} is too long: this model has learned ${max_tokens} positions and knows no others.` };
  }
  return null;
}

// ---------------------------------------------------------------- the view

// The powers of two that each slider has.
const POWERS = {
  vocabulary: [6, 18], d_model: [5, 14], n_heads: [0, 7], n_kv_heads: [0, 7], layers: [0, 7], d_ff: [6, 16],
  tokens: [0, 20], batch: [0, 12], devices: [0, 12],
};
const USE = ["tokens", "batch", "devices"];
const PARTS = ["embedding", "attention", "feed_forward", "norms", "head"];
const HELD = { write: ["weights", "cache"], learn: ["weights", "gradients", "optimizer", "activations", "loss"] };

export default {
  render({ model, el }) {
    const state = model.get("state");
    const { root, say } = frame(el, { css: CSS, label: state.title });
    const { presets, most, precisions } = state;
    let wanted = { ...state.config, ...state.use }, works = wanted;
    let alike = wanted.n_heads === wanted.n_kv_heads; // then k and v follow q

    // ---- controls ----
    let own = false; // "your own" was picked: it stays, whatever the numbers are
    const names = Object.entries(presets).map(([name, config]) => [name, `${name} (${amount(sum(parameters(big(config))), COUNT)})`]);
    const preset = select("model", [...names, ["own", "your own"]], "own", (name) => {
      own = name === "own";
      if (own) { draw(); return; }
      const { positions, max_tokens } = presets[name];
      const tokens = Number.isInteger(wanted.tokens) ? wanted.tokens : works.tokens;
      change({ ...presets[name], tokens: positions === "learned" ? Math.min(tokens, max_tokens) : tokens });
    });
    const flag = (name, text) => [name, button(text, () => change({ [name]: !wanted[name] }))];
    const flags = [flag("gated", "gated MLP"), flag("tied", "tied head"), flag("checkpointing", "checkpointing")];
    const [gated, tied, checkpointing] = flags.map(([, node]) => node);
    const purpose = select("what for", [["write", "write (inference)"], ["learn", "learn (training)"]], wanted.what_for,
      (what_for) => change({ what_for, precision: precisions[what_for].includes(wanted.precision) ? wanted.precision : "bfloat16" }));
    const precision = select("weights in", [], "", (value) => change({ precision: value }));
    const room = select("device of", state.rooms.map((gb) => [String(gb), `${gb} GB`]), String(wanted.room), (gb) => change({ room: Number(gb) }));
    const fields = Object.entries(POWERS).map(([name, [low, high]]) => {
      const number = element("input", { type: "number", min: 1, max: most[name], step: 1, "aria-label": name,
        onInput: () => change({ [name]: number.valueAsNumber }, number) });
      const range = element("input", { type: "range", min: low, max: high, step: 1, "aria-label": `${name}, powers of two`,
        onInput: () => change({ [name]: 2 ** range.valueAsNumber }) });
      return { name, number, range, node: element("div", { className: "size" }, element("span", {}, name), number, range) };
    });
    const sizes = (use) => element("div", { className: use ? "sizes use" : "sizes" }, ...fields.filter(({ name }) => USE.includes(name) === use).map(({ node }) => node));
    const kind = element("p", { className: "kind faint" });
    const wrong = element("div", { className: "wrong", hidden: true });

    function change(values, typed) { // typed: the field that is being typed in
      if ("n_heads" in values && alike && !("n_kv_heads" in values)) values = { ...values, n_kv_heads: values.n_heads };
      wanted = { ...wanted, ...values };
      alike = wanted.n_heads === wanted.n_kv_heads;
      draw(typed);
    }

    // ---- results ----
    const bars = (all) => all.map((name) => {
      const fill = element("i"), number = element("b"), share = element("span", { className: "share" });
      const node = element("div", { className: `part ${name}`, role: "listitem", "data-part": name },
        element("span", {}, called(name)), element("div", { className: "bar", "aria-hidden": "true" }, fill), number, share);
      return { name, node, fill, number, share };
    });
    const parts = bars(PARTS), held = bars([...HELD.learn, "cache"]);
    const list = (rows, label) => element("div", { role: "list", "aria-label": label }, ...rows.map(({ node }) => node));
    const all = element("b"), needed = element("b"), each = element("span");
    const track = element("div", { className: "track", "aria-hidden": "true" });
    const limit = element("div", { className: "limit", "aria-hidden": "true" }), limitName = element("div", { className: "limit-name" });
    const verdict = element("p", { className: "verdict" });
    const facts = element("div", { className: "facts" });

    root.append(element("p", { className: "title" }, state.title),
      element("div", { className: "row top" }, preset, gated, tied), sizes(false), kind,
      element("div", { className: "row top" }, purpose, precision, room, checkpointing), sizes(true), wrong,
      element("div", { className: "body" },
        element("div", { className: "card" }, element("h4", {}, all, "parameters"), list(parts, "parameters by part")),
        element("div", { className: "card" }, element("h4", {}, needed, each),
          element("div", { className: "stack" }, limitName, track, limit), verdict, list(held, "memory by part"))),
      facts,
      element("p", { className: "key faint" }, "GB: 10⁹ bytes. Activations are those of this course's own model; the loss's part is there for a moment only, the fullest one. "
        + "Operations: two for each multiply-add of a matrix product."));

    const fill = ({ fill: bar, number, share, node }, size, all, units) => {
      bar.style.width = size ? `max(1.5px, ${100 * part(size, largest(all))}%)` : "0";
      number.textContent = amount(size, units);
      share.textContent = percent(part(size, sum(all))).replace("under ", "<");
      node.dataset.size = size;
    };

    let shown; // what the table reads
    const follow = asTable(root, () => [
      { caption: `Parameters of ${shown.name}: ${Object.keys(most).filter((name) => !USE.includes(name)).map((name) => `${name} ${works[name]}`).join(", ")}`,
        columns: ["part", "parameters", "share"],
        rows: [...PARTS.map((name) => [called(name), exact(shown.count[name]), percent(part(shown.count[name], shown.total))]), ["all", exact(shown.total), "100%"]] },
      { caption: `Bytes ${shown.to}`,
        columns: ["part", "bytes", "share"],
        rows: [...HELD[works.what_for].map((name) => [called(name), exact(shown.held[name]), percent(part(shown.held[name], shown.needs))]), ["all", exact(shown.needs), "100%"]] },
      { caption: "Operations of matrix products", columns: ["what", "operations"], rows: shown.costs.map(([label, n]) => [label, exact(n)]) },
    ]);

    // ---- drawing ----
    function draw(typed) {
      const complaint = trouble(wanted, works, most);
      if (!complaint) works = wanted;
      drawControls(complaint, typed);

      const config = big(works), { tokens, batch, devices } = config, gb = BigInt(works.room) * 10n ** 9n;
      const count = parameters(config), total = sum(count);
      const holds = memory(config, config, devices), needs = sum(holds);
      const of = operations(config, tokens), forward = of.matrices + of.scores;
      const name = Object.keys(presets).find((one) => same(presets[one])) ?? "your own model";
      const writes = works.what_for === "write";
      const texts = `${plural(works.batch, "text")} of ${plural(works.tokens, "token")}`;
      const costs = [["forward, a token", forward / tokens], ["training, a token", 3n * forward / tokens],
        writes ? [`reading ${texts}`, forward * batch] : [`a step on each device, ${texts}`, 3n * forward * batch]];
      shown = { name, count, total, held: holds, needs, costs, to: `${works.devices > 1 ? `on each of ${works.devices} devices` : "on one device"}, `
        + `${writes ? "to write" : works.devices > 1 ? "where each learns from" : "to learn from"} ${texts} in ${works.precision}`
        + `${!writes && works.checkpointing ? " with checkpointing" : ""}` };

      all.textContent = amount(total, COUNT);
      for (const row of parts) fill(row, count[row.name], count, COUNT);
      if (works.tied) parts.at(-1).share.textContent = "tied";
      needed.textContent = amount(needs, BYTES);
      each.textContent = shown.to;
      const reach = needs > gb ? needs : gb;
      for (const row of held) {
        row.node.hidden = !(row.name in holds);
        if (row.name in holds) fill(row, holds[row.name], holds, BYTES);
      }
      track.replaceChildren(...Object.entries(holds).map(([one, size]) => element("i", { className: one, style: { width: `${100 * part(size, reach)}%` } })));
      const at = 100 * part(gb, reach);
      limit.style.left = limitName.style.left = `${at}%`;
      limitName.style.transform = `translateX(-${at}%)`; // never beyond either end
      limitName.textContent = `a device: ${works.room} GB`;
      const judged = judge(config, needs, gb);
      drawFacts(costs, total, of, forward, tokens);
      Object.assign(root.dataset, { forward, training: 3n * forward * batch, total, needs, fewest: judged.fewest ?? "none" });

      say(`${complaint ? `${complaint.words} These are the last settings that worked. ` : ""}${name}: ${amount(total, COUNT)} parameters. `
        + `${amount(needs, BYTES)} ${shown.to}: ${HELD[works.what_for].map((one) => `${called(one)} ${amount(holds[one], BYTES)}`).join(", ")}. `
        + `${judged.words} ${amount(forward / tokens, COUNT)} operations a token forward.`, 300);
      follow();
    }

    const same = (config) => Object.entries(config).every(([name, value]) => works[name] === value);

    function drawControls(complaint, typed) {
      const found = Object.keys(presets).find((name) => Object.entries(presets[name]).every(([key, value]) => wanted[key] === value));
      preset.control.value = own || !found ? "own" : found;
      purpose.control.value = wanted.what_for;
      room.control.value = String(wanted.room);
      precision.control.replaceChildren(...precisions[wanted.what_for].map((value) => element("option", { value }, value)));
      precision.control.value = wanted.precision;
      checkpointing.hidden = wanted.what_for === "write";
      for (const [name, node] of flags) node.setAttribute("aria-pressed", String(wanted[name]));
      kind.textContent = inKind(wanted);
      for (const { name, number, range } of fields) {
        if (number !== typed) number.value = Number.isFinite(wanted[name]) ? String(wanted[name]) : "";
        number.setAttribute("aria-invalid", String(complaint?.name === name));
        range.value = String(Math.log2(wanted[name] > 0 ? wanted[name] : works[name]));
        range.setAttribute("aria-valuetext", String(wanted[name]));
      }
      wrong.hidden = !complaint;
      const { name, take, words } = complaint ?? {};
      wrong.replaceChildren(...(complaint ? [element("div", {}, words), element("div", { className: "row" }, "Below are still the last settings that worked.",
        ...(take === undefined ? [] : [button(`take ${name} = ${take}`, () => { change({ [name]: take }); fields.find((field) => field.name === name).number.focus({ preventScroll: true }); })]))] : []));
    }

    function judge(config, needs, gb) {
      const fewest = fewestDevices(config, config, gb, BigInt(most.devices));
      const fits = needs <= gb;
      const words = fits ? (works.devices > 1 && fewest < config.devices ? `Fits; ${plural(Number(fewest), "device")} would do.` : "Fits.")
        : fewest !== null ? `Does not fit: ${plural(Number(fewest), "device")} would do.`
          : works.what_for === "learn" ? "Does not fit on any number of devices: activations are not spread. Take fewer or shorter texts" + (works.checkpointing ? "." : ", or checkpointing.")
            : `Does not fit on ${most.devices} devices.`;
      verdict.className = `verdict ${fits ? "yes" : "no"}`;
      verdict.replaceChildren(element("span", { className: "mark", "aria-hidden": "true" }, fits ? "✓" : "✗"), words,
        ...(fits || fewest === null ? [] : [button(`take ${plural(Number(fewest), "device")}`, () => { change({ devices: Number(fewest) }); fields.at(-1).number.focus({ preventScroll: true }); })]));
      return { fewest, words };
    }

    function drawFacts(costs, total, of, forward, tokens) {
      const rule = (times) => `${times} × parameters: ${amount(BigInt(times) * total, COUNT)}`;
      const notes = [`${rule(2)}. Scores, which grow with the text: ${percent(part(of.scores, forward))}`,
        `${rule(6)}. The backward pass costs twice the forward pass`,
        works.what_for === "write" ? "in one forward pass; then each new token costs one more" : `${exact(BigInt(works.batch) * tokens)} tokens, forward and backward`];
      facts.replaceChildren(...costs.map(([label, n], i) => element("div", { "data-cost": String(n) },
        element("span", { className: "faint" }, label), element("b", {}, amount(n, COUNT)), element("small", {}, notes[i]))));
    }

    draw();
  },
};
