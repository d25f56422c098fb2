// A trained language model in the page: its engine first, then the view around it.

// ================================================================ the engine

// One step of the model for each token, with keys and values kept. `config` is the
// TransformerConfig's, `weights` are Float32Arrays by their names in the state_dict.
// `session(off)` reads texts with some parts switched off: "1" is block 1, "1.0" its head 0.
export function engine(config, weights) {
  const { d_model: D, n_heads: heads, n_kv_heads: kvHeads, layers, vocabulary, d_ff } = config;
  const d_head = D / heads, kvWidth = kvHeads * d_head, group = heads / kvHeads;
  const named = (name) => weights[name] ?? null; // a bias may be missing
  const head = named("head.weight") ?? weights["embed.tokens.weight"]; // tied
  const activate = ACTIVATIONS[config.activation];
  const norm = config.norm === "rms" ? rmsNorm : layerNorm;
  const normAt = (name, x) => norm(x, weights[`${name}.weight`], named(`${name}.bias`), config.eps);
  const linearAt = (name, x) => linear(weights[`${name}.weight`], named(`${name}.bias`), x);
  const scale = config.scale ?? (config.positions === "sinusoidal" ? Math.sqrt(D) : 1);
  const frequencies = (size, base) => Float32Array.from({ length: size / 2 }, (_, i) => base ** (-2 * i / size));
  const waves = config.positions === "sinusoidal" ? frequencies(D, 10000) : null;
  const turns = config.positions === "rotary" ? frequencies(d_head, config.rotary_base) : null;
  const slopes = config.positions === "alibi" ? alibiSlopes(heads) : null;

  function embed(id, t) {
    const x = weights["embed.tokens.weight"].slice(id * D, (id + 1) * D);
    const add = (row, start) => { for (let i = 0; i < D; i++) x[i] += row[start + i]; };
    if (config.positions === "learned") add(weights["embed.positions.table.weight"], t * D);
    if (waves) {
      for (let i = 0; i < D / 2; i++) {
        x[2 * i] += Math.sin(t * waves[i]) / Math.sqrt(D);
        x[2 * i + 1] += Math.cos(t * waves[i]) / Math.sqrt(D);
      }
    }
    if (config.segments) add(weights["embed.segments.weight"], 0);
    if (scale !== 1) for (let i = 0; i < D; i++) x[i] *= scale;
    return config.embedding_norm ? normAt("embed.norm", x) : x;
  }

  // Turn the pairs of `count` heads that begin at `start` by the angles of position t.
  function rotate(x, start, count, t) {
    const half = d_head / 2, split = config.rotary_layout === "split-half";
    for (let i = 0; i < half; i++) {
      const angle = Math.fround(t * turns[i]), cos = Math.cos(angle), sin = Math.sin(angle);
      for (let h = 0; h < count; h++) {
        const from = start + h * d_head;
        const one = from + (split ? i : 2 * i), other = from + (split ? i + half : 2 * i + 1);
        const a = x[one], b = x[other];
        x[one] = a * cos - b * sin;
        x[other] = b * cos + a * sin;
      }
    }
  }

  // The attention of block `layer` for token t; its weights go into `map`, head after head.
  function attend(layer, x, t, cache, map, isOff) {
    const qkv = linearAt(`blocks.${layer}.attention.qkv`, x);
    if (turns) { rotate(qkv, 0, heads, t); rotate(qkv, D, kvHeads, t); }
    const { k, v } = cache;
    k.set(qkv.subarray(D, D + kvWidth), t * kvWidth);
    v.set(qkv.subarray(D + kvWidth), t * kvWidth);
    const merged = new Float32Array(D), by = 1 / Math.sqrt(d_head);
    for (let h = 0; h < heads; h++) {
      const from = h * d_head, shared = Math.floor(h / group) * d_head;
      const row = map.subarray(h * (t + 1), (h + 1) * (t + 1));
      for (let j = 0; j <= t; j++) {
        let dot = 0;
        for (let i = 0, at = j * kvWidth + shared; i < d_head; i++) dot += qkv[from + i] * k[at + i];
        row[j] = dot * by - (slopes ? slopes[h] * (t - j) : 0);
      }
      softmaxInPlace(row);
      if (isOff(h)) continue; // it gives zeros; the projection's bias stays
      for (let j = 0; j <= t; j++) {
        for (let i = 0, at = j * kvWidth + shared, w = row[j]; i < d_head; i++) merged[from + i] += w * v[at + i];
      }
    }
    return linearAt(`blocks.${layer}.attention.out`, merged);
  }

  function feedForward(layer, x) {
    const name = `blocks.${layer}.feed_forward`;
    const up = linearAt(`${name}.up`, x);
    if (config.gated) {
      const gate = linearAt(`${name}.gate`, x);
      for (let i = 0; i < d_ff; i++) up[i] *= activate(gate[i]);
    } else for (let i = 0; i < d_ff; i++) up[i] = activate(up[i]);
    return linearAt(`${name}.down`, up);
  }

  function block(layer, x, t, cache, map, isOff) {
    const place = (name, sublayer) => {
      const norms = `blocks.${layer}.${name}_norm`;
      if (config.norm_first) x = sum(x, sublayer(normAt(norms, x)));
      else x = normAt(norms, sum(x, sublayer(x)));
    };
    place("attention", (y) => attend(layer, y, t, cache, map, isOff));
    place("feed_forward", (y) => feedForward(layer, y));
    return x;
  }

  const readOut = (x) => linear(head, null, config.norm_first ? normAt("norm", x) : x);

  // What has been read, and how: `read(ids)` goes on from the first token that is another.
  function session(off = []) {
    const isOff = new Set(off);
    let room = 64;
    const caches = Array.from({ length: layers }, () => ({ k: new Float32Array(room * kvWidth), v: new Float32Array(room * kvWidth) }));
    const places = []; // of each token: its id, the stream before and after every block, the maps
    function grow() {
      room *= 2;
      for (const cache of caches) {
        for (const name of ["k", "v"]) { const old = cache[name]; cache[name] = new Float32Array(room * kvWidth); cache[name].set(old); }
      }
    }
    function step(id) {
      const t = places.length;
      if (t === room) grow();
      let x = embed(id, t);
      const place = { id, streams: [x], maps: [] };
      for (let layer = 0; layer < layers; layer++) {
        if (isOff.has(`${layer}`)) place.maps.push(null); // x goes past it, unchanged
        else {
          const map = new Float32Array(heads * (t + 1));
          x = block(layer, x, t, caches[layer], map, (h) => isOff.has(`${layer}.${h}`));
          place.maps.push(map);
        }
        place.streams.push(x);
      }
      places.push(place);
    }
    return {
      // True when all is read; with `until`, a time of performance.now(), it may need more turns.
      read(ids, until = Infinity) {
        let same = 0;
        while (same < ids.length && same < places.length && places[same].id === ids[same]) same++;
        places.length = Math.min(places.length, same);
        while (places.length < ids.length) {
          if (performance.now() > until) return false;
          step(ids[places.length]);
        }
        return true;
      },
      get length() { return places.length; },
      logits: (t = places.length - 1) => readOut(places[t].streams[layers]),
      lens: (t = places.length - 1) => places[t].streams.map(readOut), // after 0, 1, … blocks
      row: (layer, h, t) => places[t].maps[layer]?.subarray(h * (t + 1), (h + 1) * (t + 1)),
    };
  }
  return { session, vocabulary };
}

// y = W x + b, W row by row; four sums at once, for they do not wait for each other.
function linear(weight, bias, x) {
  const columns = x.length, rows = weight.length / columns, most = columns - columns % 4;
  const y = new Float32Array(rows);
  for (let r = 0, at = 0; r < rows; r++) {
    let a = 0, b = 0, c = 0, d = 0, i = 0;
    for (; i < most; i += 4, at += 4) {
      a += weight[at] * x[i];
      b += weight[at + 1] * x[i + 1];
      c += weight[at + 2] * x[i + 2];
      d += weight[at + 3] * x[i + 3];
    }
    for (; i < columns; i++, at++) a += weight[at] * x[i];
    y[r] = a + b + c + d + (bias ? bias[r] : 0);
  }
  return y;
}

const sum = (x, y) => x.map((value, i) => value + y[i]);

function layerNorm(x, weight, bias, eps) {
  const mean = x.reduce((a, b) => a + b, 0) / x.length;
  const variance = x.reduce((a, b) => a + (b - mean) ** 2, 0) / x.length;
  const by = 1 / Math.sqrt(variance + eps);
  return x.map((value, i) => (value - mean) * by * weight[i] + (bias ? bias[i] : 0));
}

function rmsNorm(x, weight, _, eps) {
  const by = 1 / Math.sqrt(x.reduce((a, b) => a + b * b, 0) / x.length + eps);
  return x.map((value, i) => value * by * weight[i]);
}

function softmaxInPlace(row) {
  const top = row.reduce((a, b) => Math.max(a, b), -Infinity);
  let total = 0;
  for (let j = 0; j < row.length; j++) total += row[j] = Math.exp(row[j] - top);
  for (let j = 0; j < row.length; j++) row[j] /= total;
}

// Abramowitz and Stegun, 7.1.26: no further away than 1.5e-7.
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - tail * Math.exp(-x * x));
}

const ACTIVATIONS = {
  relu: (x) => (x > 0 ? x : 0),
  gelu: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu: (x) => x / (1 + Math.exp(-x)),
};

// 2^(-8/n), 2^(-16/n), …; where n is no power of two, the missing ones come from 2n heads.
function alibiSlopes(heads) {
  const whole = 2 ** Math.floor(Math.log2(heads));
  return Array.from({ length: heads }, (_, h) => (h < whole ? 2 ** (-8 * (h + 1) / whole) : 2 ** (-4 * (2 * (h - whole) + 1) / whole)));
}

// The distribution to draw from, as `next_token_probabilities` gives it: equally likely tokens are
// kept or left out together. Rounded to float32 where PyTorch rounds.
export function chances(logits, temperature = 1, topK = Infinity, topP = 1) {
  const top = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  if (temperature === 0) return Float32Array.from(logits, (_, i) => Number(i === logits.indexOf(top)));
  const p = Float32Array.from(logits, (logit) => Math.fround(logit - top) / temperature);
  if (topK < p.length) {
    const least = Float32Array.from(p).sort()[p.length - topK];
    for (let i = 0; i < p.length; i++) if (p[i] < least) p[i] = -Infinity;
  }
  softmaxInPlace(p);
  if (topP >= 1) return p;
  let before = 0, least = 0;
  for (const share of Float32Array.from(p).sort().reverse()) {
    if (before >= topP) break;
    [least, before] = [share, Math.fround(before + share)];
  }
  const kept = p.map((share) => (share < least ? 0 : share));
  const total = kept.reduce((a, b) => a + b, 0);
  return kept.map((share) => share / total);
}

// The token whose share of the line from 0 to 1 holds `u`.
export function draw(shares, u) {
  let last = 0;
  for (let i = 0, sum = 0; i < shares.length; i++) {
    if (!shares[i]) continue;
    sum += shares[i];
    last = i;
    if (u < sum) break;
  }
  return last;
}

// A number from 0 to 1 for the n-th token under a seed: the same one whenever it is asked again.
function random(seed, n) {
  let x = (Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(n + 1, 0x85ebca6b)) >>> 0;
  for (const [shift, by] of [[16, 0x7feb352d], [15, 0x846ca68b], [16, 1]]) x = Math.imul(x ^ (x >>> shift), by);
  return (x >>> 0) / 2 ** 32;
}

// How far the answer q lies from p, both logits, in nats: KL(p ‖ q).
export function divergence(p, q) {
  const [a, b] = [p, q].map((logits) => {
    const top = logits.reduce((m, x) => Math.max(m, x), -Infinity);
    const total = Math.log(logits.reduce((s, x) => s + Math.exp(x - top), 0)) + top;
    return Float64Array.from(logits, (x) => x - total);
  });
  return Math.max(0, a.reduce((s, x, i) => s + Math.exp(x) * (x - b[i]), 0));
}

// A text as tokens, always the longest that fits: [{ id, from, to }], and the characters that no
// token begins with.
export function encode(text, numbers, longest) {
  const tokens = [], unknown = [];
  for (let from = 0; from < text.length;) {
    let size = Math.min(longest, text.length - from);
    while (size && !numbers.has(text.slice(from, from + size))) size--;
    if (size) tokens.push({ id: numbers.get(text.slice(from, from + size)), from, to: from + size });
    else {
      size = String.fromCodePoint(text.codePointAt(from)).length;
      unknown.push({ from, to: from + size });
    }
    from += size;
  }
  return { tokens, unknown };
}

// The weights: in the output itself, or in the file beside the page that its link names.
export async function loadWeights(model) {
  const { file, blocks } = model.get("state");
  const link = model.get("figure")?.querySelector("a[download]");
  let source = model;
  if (file && link) {
    const bytes = await fetchBeside(link).catch((error) => {
      link.parentNode.append(" It could not be read, so there is only the picture. Is the file still there? A page that was opened "
        + "from the disk may not read its neighbours: open it in JupyterLab instead.");
      throw error;
    });
    source = { get: (name) => (name === "data" ? bytes : model.get(name)) };
  }
  const packed = await unpack(source);
  return Object.fromEntries(Object.keys(blocks).map((name) => [name, decode(packed[name])]));
}

async function fetchBeside(link) {
  // JupyterLab gives the link its real address a moment after the output is there.
  const written = link.getAttribute("href");
  for (let i = 0; i < 60 && document.getElementById("jupyter-config-data") && link.getAttribute("href") === written; i++) {
    await new Promise((done) => setTimeout(done, 50));
  }
  const answer = await fetch(link.href);
  if (!answer.ok) throw new Error(`${link.href}: ${answer.status}`);
  return new Uint8Array(await new Response(answer.body.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer());
}

// ================================================================ the view

const CSS = `
.part { margin: 16px 0 0; min-width: 0; }
.part > .name { font-weight: 650; margin: 0 0 6px; }
.part > .name .faint { font-weight: 400; }
.sheet { display: grid; max-height: 15em; overflow: auto; margin-top: 10px; border: 1px solid var(--line); border-radius: 8px; background: var(--paper); }
.sheet:focus-within { border-color: var(--accent); box-shadow: 0 0 0 1px var(--accent); }
.sheet > * { grid-area: 1 / 1; margin: 0; border: 0; padding: 9px 11px; font: 14px/1.6 var(--mono); letter-spacing: 0; tab-size: 8;
  white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; min-height: 5.2em; min-width: 0; }
.sheet textarea { resize: none; overflow: hidden; background: none; color: var(--ink); outline: none; width: 100%; }
.shade { color: transparent; pointer-events: none; }
.shade mark { color: transparent; background: color-mix(in srgb, var(--accent) 22%, transparent); border-radius: 3px; }
.shade u { text-decoration: underline wavy var(--warm) 1.5px; text-underline-offset: 3px; }
.note { margin: 5px 0 0; min-height: 1.45em; color: var(--faint); }
.note .warn { color: var(--warm); font-weight: 600; }
.row.tools { margin-top: 8px; gap: 8px; }
.row.dials { margin-top: 10px; gap: 6px 14px; }
.dials input[type="range"] { width: 84px; }
.dials output { min-width: 3.4ch; }
.go { background: var(--accent); border-color: var(--accent); color: var(--paper); font-weight: 600; }
input[type="number"] { font: inherit; width: 5em; color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 6px; padding: 3px 6px; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: 0 30px; }
.bars { display: grid; gap: 3px 8px; align-items: center; grid-template-columns: fit-content(8em) minmax(30px, 1fr) 5.6ch; max-width: 460px; }
.bars.two { grid-template-columns: fit-content(8em) minmax(24px, 1fr) 5.2ch minmax(24px, 1fr) 5.2ch; }
.bars .token, .lens .token { font-size: 14px; min-width: 2.2em; overflow: hidden; text-overflow: ellipsis; }
.bars .token { text-align: end; }
.bars .head { font-size: 12px; grid-column: span 2; align-self: end; }
.track { position: relative; height: 13px; background: var(--raised); border-radius: 3px; }
.track b { position: absolute; inset: 0 auto 0 0; background: var(--accent); border-radius: 3px; }
.track i { position: absolute; top: -1px; bottom: -1px; width: 2px; background: var(--ink); opacity: .55; }
.track.without b { background: var(--warm); }
.out { text-decoration: line-through; color: var(--faint); opacity: .75; }
.legend { margin: 8px 0 0; font-size: 12px; color: var(--faint); max-width: 46em; }
.lens { display: grid; gap: 3px 10px; align-items: center; grid-template-columns: max-content fit-content(8em) minmax(30px, 1fr) 5.6ch; max-width: 460px; }
.lens .off { text-decoration: line-through; }
.maps { display: flex; flex-wrap: wrap; gap: 14px 24px; align-items: flex-start; }
.layers { display: grid; gap: 12px; min-width: 0; }
.layer { display: flex; flex-wrap: wrap; gap: 8px; align-items: flex-start; }
.layer > .side { width: 76px; }
.cell { display: grid; grid-template-columns: 100%; gap: 3px; width: 70px; }
.map { padding: 3px; line-height: 0; position: relative; background: var(--paper); }
.map canvas { width: 100%; aspect-ratio: 1; image-rendering: pixelated; border-radius: 3px; }
.map[aria-expanded="true"] { border-color: var(--accent); box-shadow: 0 0 0 1px var(--accent); }
.switch { font-size: 11px; line-height: 1.3; padding: 1px 3px; color: var(--faint); background: none; white-space: nowrap; }
.switch[aria-pressed="true"] { background: none; color: var(--faint); border-color: var(--line); }
.switch[aria-pressed="false"] { background: var(--warm); border-color: var(--warm); color: var(--paper); }
.map.silent canvas { opacity: .25; }
.large { flex: 1 1 260px; min-width: 0; max-width: 420px; }
.bars[hidden], .lens[hidden], .large[hidden] { display: none; }
.large .field-map { position: relative; width: 100%; max-width: 260px; aspect-ratio: 1; border-radius: 4px; cursor: crosshair; }
.large canvas { width: 100%; height: 100%; image-rendering: pixelated; display: block; border-radius: 4px; }
.field-map i { position: absolute; left: 0; width: 100%; border: 1px solid var(--accent); box-shadow: 0 0 0 1px var(--paper); pointer-events: none; border-radius: 2px; }
.large .row { justify-content: space-between; margin-bottom: 6px; }
.looks { margin: 8px 0 4px; overflow-wrap: anywhere; }
.sentence { margin: 0; font: 14px/1.75 var(--mono); overflow-wrap: anywhere; }
.sentence span { border-radius: 3px; padding: 1px 0; white-space: pre-wrap; }
.sentence .asks { outline: 2px solid var(--ink); }
.apart { margin: 0 0 8px; }
.apart b { color: var(--warm); }
@container (max-width: 460px) { .layer { gap: 5px; } .layer > .side { width: 100%; } .cell { width: 60px; } .map { padding: 2px; } .switch { font-size: 10px; padding: 1px 0; } }
`;

const BARS = 11, SIDE = 48, LEAST_SIDE = 12; // bars; tokens of a map, at most and at least
const MOST = 200, PAUSE = 45; // tokens of one "write on"; milliseconds between two of them
const ALL_K = 51; // the last step of the top-k slider: all are kept

const quoted = (token) => `‘${tokenText(token)}’`;
const points = (share) => (share >= 0.0995 || share === 0 ? `${Math.round(100 * share)}%` : share >= 0.001 ? `${(100 * share).toFixed(1)}%` : "<0.1%");
const likeliest = (shares, count) => [...shares.keys()].sort((a, b) => shares[b] - shares[a] || a - b).slice(0, count);

export default {
  async render({ model, el }) {
    const state = model.get("state");
    const { config, vocabulary } = state;
    const machine = engine(config, await loadWeights(model));
    const numbers = new Map(vocabulary.map((token, i) => [token, i]));
    const longest = Math.max(...vocabulary.map((token) => token.length));
    const { layers, n_heads: heads } = config;
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    const { root, say, onTheme } = frame(el, { css: CSS, label: state.title });

    // ---- what there is: the text, its tokens, what is switched off, how tokens are drawn
    let text = state.prompt, tokens = [], unknown = [];
    let typed = text; // what the learner wrote; behind it stands what the model did
    let writing = false, last = null, opened = null, asked = null; // asked: a token of the large map, from the end
    const off = new Set(); // "1" is block 1, "1.0" its head 0
    const dials = { temperature: 1, topK: ALL_K, topP: 1, seed: 0 };
    const whole = machine.session();
    let cut = null; // a second session, without what is off
    const running = () => cut ?? whole;

    // The tokens that are read: of a long text the last ones. The first are dropped by the
    // quarter, so that a new token rarely means that all is read again.
    function recent() {
      const more = tokens.length - state.room, quarter = Math.max(1, state.room >> 2);
      const start = more > 0 ? Math.ceil(more / quarter) * quarter : 0;
      return tokens.slice(start).map(({ id }) => id);
    }
    const shares = (logits) => chances(logits, dials.temperature, dials.topK === ALL_K ? Infinity : dials.topK, dials.topP);

    function settle(value) { // the text is another one
      text = value;
      ({ tokens, unknown } = encode(text, numbers, longest));
      asked = null;
    }

    // ---- parts of the page
    const area = element("textarea", { value: text, spellcheck: false, autocapitalize: "off", autocomplete: "off", rows: 2,
      "aria-label": "the text that the model reads", "aria-describedby": "note",
      onFocus: () => stop(), onInput: () => { stop(); typed = area.value; last = null; settle(typed); refresh(); } });
    area.addEventListener("keydown", (event) => { // undoing is the field's here, not the notebook's
      if ((event.ctrlKey || event.metaKey) && /^[acvxyz]$/i.test(event.key)) event.stopPropagation();
    });
    const shade = element("div", { className: "shade", "aria-hidden": "true" });
    const sheet = element("div", { className: "sheet" }, shade, area);
    const note = element("p", { className: "note", id: "note" });
    const one = button("Write one", () => { writeOne(); refresh(); }, { className: "go" });
    const on = button("Write on", () => (writing ? stop() : writeOn(MOST)));
    const back = button("Take one back", takeBack);
    const again = button("Start again", () => { stop(); restore(text === typed ? state.prompt : typed); refresh(); });
    const another = button("Another draw", () => {
      const count = Math.max(1, tokens.length - encode(typed, numbers, longest).tokens.length);
      stop();
      dials.seed = seed.valueAsNumber = (dials.seed + 1) % 10000;
      restore(typed);
      writeOn(count);
    });
    const seed = element("input", { type: "number", min: 0, max: 9999, step: 1, value: 0, "aria-label": "seed of the draws",
      onInput: () => { dials.seed = clamp(Math.floor(seed.valueAsNumber) || 0, 0, 9999); } });
    const dial = (label, name, bounds, write) => slider(label, { ...bounds, value: dials[name], text: write, onInput: (to) => { dials[name] = to; last = null; refresh(); } });
    const most = Math.min(ALL_K, vocabulary.length);
    const dialRow = element("div", { className: "row dials", role: "group", "aria-label": "how the next token is drawn" },
      dial("temperature", "temperature", { min: 0, max: 2, step: 0.1 }, (t) => (t === 0 ? "0, greedy" : t.toFixed(1))),
      dial("top-k", "topK", { min: 1, max: most }, (k) => (k === most ? "all" : String(k))),
      dial("top-p", "topP", { min: 0.05, max: 1, step: 0.05 }, (p) => (p >= 1 ? "all" : p.toFixed(2))),
      element("label", { className: "field" }, element("span", {}, "seed"), seed));
    const apart = element("p", { className: "apart", hidden: true });
    const bars = element("div", { className: "bars", role: "group", "aria-label": "the likeliest next tokens" });
    const legend = element("p", { className: "legend" });
    const lens = element("div", { className: "lens", role: "group", "aria-label": "the likeliest token after each block" });
    const lensLegend = element("p", { className: "legend" });
    const grid = element("div", { className: "layers", role: "group", "aria-label": "the heads of every block. Arrows move, Enter enlarges a map or switches a part off and on." });
    const large = element("div", { className: "large", id: "large", hidden: true });
    const part = (name, ...children) => element("section", { className: "part" }, element("p", { className: "name" }, ...name), ...children);
    const allOn = button("Switch all on", () => { off.clear(); changed("All parts are on."); }, { hidden: true });
    root.append(element("p", { className: "title" }, state.title), sheet, note,
      element("div", { className: "row tools" }, one, on, back, again, another), dialRow,
      element("div", { className: "columns" },
        part(["What comes next?"], apart, bars, legend),
        part(["What would it say after each block?"], lens,
          lensLegend)),
      part(["Where does each head look? ", element("span", { className: "faint" }, "Click a map to enlarge it; switch a head or a block off and see what changes.")],
        element("div", { className: "maps" }, grid, large), element("div", { className: "row", style: { "margin-top": "8px" } }, allOn)));

    // ---- the heads: a map and a switch each, a switch for every block
    const blockSwitches = [], cells = [];
    const rows = []; // of what the arrows walk through
    for (let layer = 0; layer < layers; layer++) {
      blockSwitches[layer] = toggle(`${layer}`, `block ${layer}`);
      cells[layer] = Array.from({ length: heads }, (_, h) => {
        const canvas = element("canvas", { width: LEAST_SIDE, height: LEAST_SIDE });
        const map = element("button", { type: "button", className: "map", "aria-expanded": "false", "aria-controls": "large", onClick: () => open(layer, h) }, canvas);
        return { canvas, map, toggle: toggle(`${layer}.${h}`, `head ${h}`) };
      });
      rows.push([blockSwitches[layer], ...cells[layer].map(({ map }) => map)], [blockSwitches[layer], ...cells[layer].map((cell) => cell.toggle)]);
      grid.append(element("div", { className: "layer", role: "group", "aria-label": `block ${layer}` },
        element("div", { className: "side" }, blockSwitches[layer]),
        ...cells[layer].map(({ map, toggle }) => element("div", { className: "cell" }, map, toggle))));
    }
    function toggle(key, name) {
      return button(`${name}: on`, () => {
        if (!off.delete(key)) off.add(key);
        const words = key.includes(".") ? `Block ${key.replace(".", ", head ")}` : `Block ${key}`;
        changed(`${words} is ${off.has(key) ? "off" : "on"}.`);
      }, { className: "switch", "aria-pressed": "true", "data-name": name });
    }
    rows.flat().forEach((node) => { node.tabIndex = -1; });
    cells[0][0].map.tabIndex = 0;
    grid.addEventListener("focusin", ({ target }) => {
      rows.flat().forEach((node) => { node.tabIndex = node === target ? 0 : -1; });
    });
    grid.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      const at = rows.findIndex((row) => row.includes(event.target));
      if (!step || at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const column = rows[at].indexOf(event.target);
      const down = column === 0 && step[0] ? 2 * step[0] : step[0]; // a block's switch stands in two rows
      rows[clamp(at + down, 0, rows.length - 1)][clamp(column + step[1], 0, heads)].focus();
    });

    function changed(words) {
      // a head of a block that is off is off with it
      cut = off.size ? machine.session([...off]) : null;
      last = null;
      for (const [key, node] of [...blockSwitches.map((node, i) => [`${i}`, node]), ...cells.flatMap((row, i) => row.map((cell, h) => [`${i}.${h}`, cell.toggle]))]) {
        const isOff = off.has(key);
        node.setAttribute("aria-pressed", String(!isOff));
        node.textContent = `${node.dataset.name}: ${isOff ? "off" : "on"}`;
      }
      allOn.hidden = !off.size;
      refresh(words);
    }

    // ---- writing
    function restore(to) {
      typed = area.value = to;
      last = null;
      settle(to);
    }
    function writeOne() {
      const ids = recent();
      if (!ids.length) return;
      running().read(ids);
      const p = shares(running().logits());
      const id = draw(p, random(dials.seed, tokens.length)), token = vocabulary[id];
      last = { id, share: p[id] };
      tokens.push({ id, from: text.length, to: text.length + token.length });
      text = area.value = text + token;
      asked = null;
    }
    let turn = 0; // a later call ends an earlier one
    async function writeOn(count) {
      const mine = ++turn, from = text.length;
      writing = true;
      on.textContent = "Stop";
      for (let n = 1; n <= count && mine === turn && root.isConnected && tokens.length; n++) {
        writeOne();
        if (still.matches && n % 20 && n < count) continue; // without motion: by the handful
        catchUp(Infinity);
        show();
        await new Promise((done) => setTimeout(done, still.matches ? 400 : PAUSE));
      }
      if (mine === turn) stop();
      if (text.length > from) refresh(`It wrote: ${text.slice(from)}`);
    }
    function stop() {
      turn++;
      writing = false;
      on.textContent = "Write on";
    }
    function takeBack() {
      stop();
      const gone = tokens.pop();
      if (!gone) return;
      text = area.value = text.slice(0, gone.from);
      if (typed.length > text.length) typed = text;
      unknown = unknown.filter(({ to }) => to <= text.length);
      last = null;
      refresh(`Taken back: ${tokenText(vocabulary[gone.id])}`);
    }
    root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      if (writing) stop();
      else if (opened) { const { map } = cells[opened[0]][opened[1]]; close(); map.focus(); }
    });

    // ---- reading: as much as a frame allows, then the next
    function catchUp(until) {
      const ids = recent();
      return whole.read(ids, until) && (!cut || cut.read(ids, until));
    }
    let words = "";
    const read = oncePerFrame(() => {
      if (catchUp(performance.now() + 14)) {
        root.setAttribute("aria-busy", "false");
        show();
        tell();
        return;
      }
      note.textContent = `reading … ${running().length} of ${recent().length}`;
      read();
    });
    function refresh(first = "") {
      words = first;
      root.setAttribute("aria-busy", "true");
      drawSheet();
      read();
    }
    function tell() {
      say([words, ...notes(), next()].filter(Boolean).join(" "), words ? 100 : 500);
      words = "";
      model.set("chosen", { text, off: [...off], ...dials });
      model.save_changes();
    }

    // ---- drawing
    function notes() {
      const found = [], read = recent().length;
      if (unknown.length) {
        const each = [...new Set(unknown.map(({ from, to }) => text.slice(from, to)))];
        found.push(`The model does not know ${each.slice(0, 5).map(quoted).join(", ")}${each.length > 5 ? ` and ${each.length - 5} more` : ""}: it reads the text without ${unknown.length > 1 ? "them" : "it"}.`);
      }
      if (!tokens.length) found.push("Write at least one character: the model goes on with a text, it cannot begin one.");
      if (read < tokens.length) {
        found.push(config.positions === "learned" && state.room === config.max_tokens
          ? `The model has learned ${state.room} positions: it reads only the last ${read} of ${tokens.length} tokens.`
          : `That is long: the model reads only the last ${read} of ${tokens.length} tokens.`);
      }
      return found;
    }
    function next() {
      if (!tokens.length) return "";
      const p = shares(running().logits());
      return `Next: ${likeliest(p, 3).filter((i) => p[i]).map((i) => `${quoted(vocabulary[i])} ${points(p[i])}`).join(", ")}.`
        + (cut ? ` ${digits(divergence(whole.logits(), cut.logits()))} nats from the whole model.` : "");
    }

    function drawSheet() {
      const marks = [{ from: typed.length, to: text.length, tag: "mark" }, ...unknown.map((place) => ({ ...place, tag: "u" }))]
        .filter(({ from, to }) => to > from).sort((a, b) => a.from - b.from);
      const pieces = [];
      let at = 0;
      for (const { from, to, tag } of marks) {
        if (from < at) continue;
        pieces.push(text.slice(at, from), element(tag, {}, text.slice(from, to)));
        at = to;
      }
      shade.replaceChildren(...pieces, text.slice(at), "\u200b"); // an empty last line has its height
      sheet.scrollTop = writing ? sheet.scrollHeight : sheet.scrollTop;
    }

    function show() {
      drawSheet();
      const warned = notes();
      note.replaceChildren(...(warned.length ? [element("span", { className: "warn" }, warned.join(" "))]
        : last ? [`It drew ${quoted(vocabulary[last.id])}, which had ${points(last.share)}.`]
          : text.length > typed.length ? ["What the model wrote is shaded."] : ["Type, and see what it makes of it."]));
      for (const node of [one, on, back, another]) node.disabled = !tokens.length;
      again.disabled = text === state.prompt && typed === text;
      for (const node of [bars, lens]) node.hidden = !tokens.length;
      if (tokens.length) { drawBars(); drawLens(); }
      drawMaps();
      follow();
    }

    const offWords = () => {
      const blocks = [...off].filter((key) => !key.includes(".")).sort();
      const single = [...off].filter((key) => key.includes(".") && !off.has(key.split(".")[0])).sort();
      const named = [...blocks.map((key) => `block ${key}`), ...single.map((key) => `head ${key.split(".")[1]} of block ${key.split(".")[0]}`)];
      return named.length > 3 ? `${named.length} parts` : named.join(" and ");
    };

    // A bar as long as the chance to be drawn, a mark where the model itself puts it.
    function drawBars() {
      const sides = (cut ? [whole, cut] : [whole]).map((session) => {
        const logits = session.logits();
        return { own: chances(logits), drawn: shares(logits) };
      });
      const best = sides.flatMap(({ own }) => likeliest(own, cut ? 7 : BARS));
      const shown = [...new Set(best)].sort((a, b) => sides[0].own[b] - sides[0].own[a]);
      const reach = Math.max(...sides.flatMap(({ own, drawn }) => shown.flatMap((i) => [own[i], drawn[i]])));
      const along = (share) => `${100 * share / reach}%`;
      const plain = sides[0].own.every((share, i) => Math.abs(share - sides[0].drawn[i]) < 1e-6);
      bars.className = `bars${cut ? " two" : ""}`;
      const row = (i) => {
        const gone = sides.every(({ drawn }) => !drawn[i]);
        return [element("span", { className: `token${gone ? " out" : ""}` }, tokenText(vocabulary[i])),
          ...sides.flatMap(({ own, drawn }, side) => [
            element("span", { className: `track${side ? " without" : ""}` }, element("b", { style: { width: along(drawn[i]) } }),
              ...(plain ? [] : [element("i", { style: { left: `calc(${along(own[i])} - 1px)` } })])),
            element("span", { className: `number${drawn[i] ? "" : " out"}` }, points(drawn[i] || own[i]))])];
      };
      const head = (name, className) => element("span", { className: `head ${className}` }, name);
      bars.replaceChildren(...(cut ? [element("span"), head("whole model", "faint"), head(`without ${offWords()}`, "faint")] : []), ...shown.flatMap(row));
      const rest = 1 - shown.reduce((total, i) => total + sides.at(-1).drawn[i], 0);
      const kept = sides.at(-1).drawn.filter((share) => share > 0).length;
      legend.textContent = [kept < vocabulary.length ? `${kept} of ${vocabulary.length} tokens can be drawn; what is struck out cannot.` : `All ${vocabulary.length} tokens can be drawn.`,
        rest > 0.0005 ? `${points(rest)} goes to tokens that are not shown.` : "",
        plain ? "" : "Bar: the chance to be drawn. Mark: what the model itself gives."].filter(Boolean).join(" ");
      apart.hidden = !cut;
      if (cut) {
        apart.replaceChildren(`Without ${offWords()}, the answer is `, element("b", { className: "number" }, `${digits(divergence(whole.logits(), cut.logits()))} nats`),
          " away (KL divergence at temperature 1). The model now writes without it.");
      }
    }

    const stages = () => running().lens().map((logits, stage) => {
      const p = chances(logits), [i] = likeliest(p, 1);
      return { name: stage ? `after block ${stage - 1}` : "embedding", token: vocabulary[i], share: p[i], off: off.has(`${stage - 1}`) };
    });
    function drawLens() {
      lens.replaceChildren(...stages().flatMap(({ name, token, share, off: gone }) => [
        element("span", { className: `faint${gone ? " off" : ""}` }, name), element("b", { className: "token" }, tokenText(token)),
        element("span", { className: `track${cut ? " without" : ""}` }, element("b", { style: { width: `${100 * share}%` } })),
        element("span", { className: "number" }, points(share))]));
      lensLegend.textContent = `${cut ? `Without ${offWords()}. ` : ""}The residual stream of the last token, read out early: `
        + `through ${config.norm_first ? "the last norm and the head" : "the head"}, as if the model ended there.`;
    }

    // A head's weights of the last tokens: rows look, columns are looked at. Colours by the square
    // root, so that small weights are seen.
    const rowOf = (layer, h, t) => running().row(layer, h, t) ?? whole.row(layer, h, t);
    function paint(canvas, layer, h, least = LEAST_SIDE) {
      const count = whole.length, seen = Math.min(SIDE, count), side = Math.max(least, seen), first = count - seen;
      [canvas.width, canvas.height] = [side, side];
      const context = canvas.getContext("2d"), pixels = context.createImageData(side, side);
      const out = new Uint32Array(pixels.data.buffer), table = colorTable(VIRIDIS);
      for (let q = 0; q < seen; q++) {
        const row = rowOf(layer, h, first + q);
        for (let k = 0; k <= q; k++) out[q * side + k] = table[Math.round(1023 * Math.sqrt(row[first + k]))];
      }
      context.putImageData(pixels, 0, 0);
      return { first, seen, side };
    }
    function looks(layer, h, t = whole.length - 1, count = 3) {
      const row = rowOf(layer, h, t);
      return likeliest(row, count).filter((k) => row[k] >= 0.01).map((k) => [row[k], k, t - k ? `${t - k} back` : "itself"]);
    }
    const idAt = (t) => vocabulary[tokens[tokens.length - whole.length + t].id];
    const inWords = (found) => found.map(([share, k, where]) => `${points(share)} at ${quoted(idAt(k))} (${where})`).join(", ");
    const isSilent = (layer, h) => off.has(`${layer}`) || off.has(`${layer}.${h}`);
    function drawMaps() {
      cells.forEach((row, layer) => row.forEach(({ canvas, map }, h) => {
        if (whole.length) paint(canvas, layer, h);
        else canvas.width = LEAST_SIDE; // empty
        map.classList.toggle("silent", isSilent(layer, h));
        map.setAttribute("aria-expanded", String(opened?.[0] === layer && opened[1] === h));
        map.setAttribute("aria-label", `block ${layer}, head ${h}${isSilent(layer, h) ? ", off" : ""}. ${whole.length ? `The last token looks ${inWords(looks(layer, h))}.` : ""} Enlarge.`);
      }));
      drawLarge();
    }

    // ---- one map, large
    const largeCanvas = element("canvas"), line = element("i"), lookWords = element("p", { className: "looks" }), sentence = element("p", { className: "sentence" });
    const largeName = element("b");
    const field = element("div", { className: "field-map", tabIndex: 0, role: "application", "aria-roledescription": "attention map" }, largeCanvas, line);
    large.append(element("div", { className: "row" }, largeName, button("Close", () => { const [layer, h] = opened; close(); cells[layer][h].map.focus(); })), field, lookWords, sentence,
      element("p", { className: "legend" }, "Rows: the token that looks. Columns: the tokens that it can look at. Point at a row, or move with the arrows up and down. Yellow: all of the weight."));
    function open(layer, h) {
      if (opened?.[0] === layer && opened[1] === h) { close(); return; }
      [opened, asked] = [[layer, h], null];
      large.hidden = false;
      drawMaps();
      say(`Block ${layer}, head ${h}, enlarged. ${lookWords.textContent}`);
      follow();
    }
    function close() {
      opened = null;
      large.hidden = true;
      drawMaps();
      follow();
    }
    function drawLarge() {
      if (!opened || !whole.length) { large.hidden = true; return; }
      large.hidden = false;
      const [layer, h] = opened;
      const { first, seen, side } = paint(largeCanvas, layer, h, 5);
      const t = whole.length - 1 - clamp(asked ?? 0, 0, seen - 1), row = rowOf(layer, h, t);
      largeName.textContent = `Block ${layer}, head ${h}${isSilent(layer, h) ? " (off)" : ""}`;
      Object.assign(line.style, { top: `${100 * (t - first) / side}%`, width: `${100 * (t - first + 1) / side}%`, height: `${100 / side}%` });
      lookWords.replaceChildren(element("b", { className: "token" }, quoted(idAt(t))), `${t === whole.length - 1 ? ", the last token," : ""} looks ${inWords(looks(layer, h, t, 4)) || "at many tokens, a little at each"}.`);
      field.setAttribute("aria-label", `block ${layer}, head ${h}: arrows up and down choose the token that looks. ${lookWords.textContent}`);
      const earlier = row.slice(0, first).reduce((a, b) => a + b, 0); // the words above may look further back
      sentence.replaceChildren(...(earlier >= 0.01 ? [element("span", { className: "faint" }, `… ${points(earlier)} earlier … `)] : []), ...Array.from({ length: seen }, (_, i) => {
        const share = first + i <= t ? row[first + i] : 0;
        return element("span", { className: first + i === t ? "asks" : "", style: share > 0.002 ? { background: `color-mix(in srgb, var(--accent) ${Math.round(85 * Math.sqrt(share))}%, transparent)` } : {} },
          idAt(first + i) === " " ? " " : tokenText(idAt(first + i)));
      }));
    }
    function ask(back) {
      asked = clamp(back, 0, Math.min(SIDE, whole.length) - 1);
      drawLarge();
    }
    field.addEventListener("pointermove", (event) => {
      const box = field.getBoundingClientRect(), seen = Math.min(SIDE, whole.length);
      ask(seen - 1 - Math.floor((event.clientY - box.top) / box.height * largeCanvas.height));
    });
    field.addEventListener("pointerleave", () => ask(0));
    field.addEventListener("keydown", (event) => {
      const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      ask((asked ?? 0) + by);
      say(lookWords.textContent, 150);
    });

    // ---- the numbers as tables
    const follow = asTable(root, () => {
      if (!tokens.length || whole.length !== recent().length) return { caption: "Nothing is read yet", columns: ["token"], rows: [] };
      const sides = (cut ? [["whole model", whole], [`without ${offWords()}`, cut]] : [["model", whole]]).map(([name, session]) => [name, session.logits()]);
      const given = sides.map(([, logits]) => [logits, chances(logits), shares(logits)]);
      const list = [{ caption: "The likeliest next tokens: logits, probabilities, and the chance to be drawn",
        columns: ["token", ...sides.flatMap(([name]) => [`logit, ${name}`, `probability, ${name}`, `chance, ${name}`])],
        rows: likeliest(given[0][1], 20).map((i) => [tokenText(vocabulary[i]), ...given.flatMap((each) => each.map((values) => values[i]))]) },
      { caption: "The likeliest token after each block", columns: ["after", "token", "probability"], rows: stages().map(({ name, token, share }) => [name, tokenText(token), share]) },
      { caption: "Where the last token looks most", columns: ["head", "token", "how far back", "weight"],
        rows: cells.flatMap((row, layer) => row.map((_, h) => { const [[share, k, where]] = [...looks(layer, h, undefined, 1), [0, 0, ""]]; return [`block ${layer}, head ${h}`, tokenText(idAt(k)), where, share]; })) }];
      if (opened) {
        const [layer, h] = opened, t = whole.length - 1, row = rowOf(layer, h, t);
        list.push({ caption: `Block ${layer}, head ${h}: where the last token looks`, columns: ["token", "how far back", "weight"],
          rows: likeliest(row, 20).map((k) => [tokenText(idAt(k)), String(t - k), row[k]]) });
      }
      return list;
    });

    onTheme(() => drawMaps());
    settle(text);
    catchUp(Infinity);
    show();
  },
};
