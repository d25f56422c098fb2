// A question with two to six options; each answers when it is chosen. The browser remembers. What is
// said to each option lies in the packed data, so that nobody reads it in the page by accident.

const CSS = `
.view { width: 46em; padding: 9px 12px 10px; }
.prompt { font-weight: 600; font-size: 14px; line-height: 1.4; margin: 0 0 7px; text-wrap: pretty; }
code { font-family: var(--mono); font-size: .94em; background: var(--raised); border-radius: 4px; padding: 0 4px; }
.options { display: grid; gap: 4px; }
.options.short { display: flex; flex-wrap: wrap; }
.option { display: flex; gap: 8px; text-align: start; padding: 3px 10px 3px 8px; line-height: 1.45; }
.option code { background: var(--paper); }
.letter { color: var(--faint); font-weight: 600; }
.option[aria-checked="true"] { background: var(--paper); border-width: 2px; padding: 2px 9px 2px 7px; }
.right, .right:hover { border-color: var(--good); }
.wrong, .wrong:hover { border-color: var(--warm); }
.feedback { margin: 7px 0 0; }
.mark { font-weight: 700; }
.mark.right { color: var(--good); }
.mark.wrong { color: var(--warm); }
.counted { margin: 4px 0 0; font-size: 12px; }
`;

const LETTERS = "abcdef";
const PATIENCE = 2000; // milliseconds until a click without an answer from Python is told so

// Text nodes and <code> elements: `this` is code.
function withCode(text) {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return [text];
  return parts.map((part, i) => (i % 2 ? element("code", {}, part) : part));
}

// What the browser remembers of a question; storage may be forbidden or full, and then it is not.
function memory(name) {
  const key = `tfcourse:quiz:${name}`;
  return {
    read() {
      try {
        const kept = JSON.parse(localStorage.getItem(key));
        return kept && Number.isInteger(kept.chosen) ? kept : null;
      } catch { return null; }
    },
    write(value) {
      try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* it works without */ }
    },
  };
}

const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// The ways to Python that channel.js opens, one for each kernel; none on a page without one.
async function openChannels() {
  for (let waited = 0; waited < PATIENCE && !globalThis.tfcourseChannels?.size; waited += 100) await wait(100);
  return [...globalThis.tfcourseChannels ?? []];
}

export default {
  async render({ model, el }) {
    const { name, title, options, counts } = model.get("state");
    const packed = decode((await unpack(model)).answers);
    const answers = JSON.parse(new TextDecoder().decode(Uint8Array.from(packed)));
    const { root, say } = frame(el, { css: CSS, label: "Question" });
    const kept = memory(name);
    let record = kept.read();
    if (record && record.chosen >= options.length) record = null; // the question has changed

    const prompt = element("p", { className: "prompt", id: "prompt" }, ...withCode(title));
    const short = options.every((text) => text.length < 32) && options.join("").length < 76;
    const list = element("div",
      { className: `options${short ? " short" : ""}`, role: "radiogroup", "aria-labelledby": "prompt" });
    const rows = options.map((text, i) => element("button",
      { type: "button", role: "radio", className: "option", onClick: () => choose(i) },
      element("span", { className: "letter" }, LETTERS[i]), element("span", {}, ...withCode(text))));
    list.append(...rows);
    const feedback = element("p", { className: "feedback" });
    const counted = element("p", { className: "counted faint" });
    root.append(prompt, list, feedback, counted);

    function show() {
      const chosen = record?.chosen ?? -1;
      rows.forEach((row, i) => {
        row.setAttribute("aria-checked", String(i === chosen));
        row.tabIndex = i === Math.max(0, chosen) ? 0 : -1;
        row.className = `option${i === chosen ? (answers[i].right ? " right" : " wrong") : ""}`;
      });
      feedback.hidden = chosen < 0;
      counted.hidden = !counted.textContent;
      if (chosen < 0) return;
      const { right, feedback: said } = answers[chosen];
      feedback.replaceChildren(
        element("span", { className: `mark ${right ? "right" : "wrong"}` }, right ? "✓ Right. " : "✗ Not quite. "),
        ...withCode(said));
    }

    function choose(i) {
      const { right, feedback: said } = answers[i];
      record = { chosen: i, right, tries: (record?.tries ?? 0) + 1, first: record?.first ?? i };
      kept.write(record);
      model.set("chosen", record);
      model.save_changes();
      tell();
      show();
      say(`${right ? "Right." : "Not quite."} ${said}`);
      count(false);
    }

    const tell = (...words) => {
      counted.replaceChildren(...words);
      counted.hidden = !words.length;
    };

    // Puts the answer on the progress board, or says how the learner can.
    async function count(remembered) {
      if (!counts) return;
      const answer = { name, letter: LETTERS[record.chosen], remembered };
      const channels = await openChannels();
      let late = true; // until Python has answered; another click makes this one stale
      const current = () => LETTERS[record.chosen] === answer.letter;
      Promise.any(channels.map((ask) => ask(answer))).then((words) => {
        late = false;
        if (current()) tell(words);
      }, () => {});
      if (remembered) return; // that was told when it was chosen
      if (channels.length) await wait(PATIENCE);
      if (!late || !current()) return;
      tell(channels.length ? "Not on your progress board yet: Python is busy, or has stopped. " : "Not on your progress board, because no Python is running here. ",
        "To count it, run ", element("code", {}, `quiz("${name}", "${answer.letter}")`), " in the lesson.");
    }

    list.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      const letter = LETTERS.indexOf(event.key.toLowerCase());
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const here = rows.indexOf(event.target.closest(".option"));
      if (step) {
        rows[(here + step + rows.length) % rows.length].focus();
        event.preventDefault();
      } else if (letter >= 0 && letter < rows.length) {
        rows[letter].focus();
        choose(letter);
      }
    });

    show();
    if (record) count(true);
  },
};
