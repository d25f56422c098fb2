// A question with two to six options; each answers when it is chosen. The browser remembers.

const CSS = `
.prompt { font-weight: 600; font-size: 14px; margin: 0 0 10px; max-width: 46em; }
code { font-family: var(--mono); font-size: .94em; background: var(--raised); border-radius: 4px; padding: 0 4px; }
.options { display: grid; gap: 6px; max-width: 46em; }
.option { display: grid; grid-template-columns: 2em 1fr; gap: 2px 8px; text-align: start; padding: 7px 10px;
  border-radius: 8px; line-height: 1.45; }
.letter { color: var(--faint); font-weight: 600; }
.feedback { grid-column: 2; }
.option[aria-checked="true"] { background: var(--paper); border-width: 2px; padding: 6px 9px; }
.option.right[aria-checked="true"] { border-color: var(--good); }
.option.wrong[aria-checked="true"] { border-color: var(--warm); }
.mark { font-weight: 700; }
.right .mark { color: var(--good); }
.wrong .mark { color: var(--warm); }
.hint { margin: 8px 0 0; font-size: 12px; }
`;

const LETTERS = "abcdef";

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

export default {
  render({ model, el }) {
    const { name, title, options } = model.get("state");
    const { root, say } = frame(el, { css: CSS, label: "Question" });
    const kept = memory(name);
    let record = kept.read();
    if (record && record.chosen >= options.length) record = null; // the question has changed

    const prompt = element("p", { className: "prompt", id: "prompt" }, ...withCode(title));
    const hint = element("p", { className: "hint faint" });
    const list = element("div", { className: "options", role: "radiogroup", "aria-labelledby": "prompt" });
    const rows = options.map(({ text, right, feedback }, i) => {
      const answer = element("span", { className: "feedback", hidden: true },
        element("span", { className: "mark" }, right ? "✓ Right. " : "✗ Not quite. "), ...withCode(feedback));
      return element("button",
        { type: "button", role: "radio", className: `option ${right ? "right" : "wrong"}`, onClick: () => choose(i) },
        element("span", { className: "letter" }, LETTERS[i]), element("span", {}, ...withCode(text)), answer);
    });
    list.append(...rows);
    root.append(prompt, list, hint);

    function show() {
      const chosen = record?.chosen ?? -1;
      rows.forEach((row, i) => {
        row.setAttribute("aria-checked", String(i === chosen));
        row.tabIndex = i === Math.max(0, chosen) ? 0 : -1;
        row.querySelector(".feedback").hidden = i !== chosen;
      });
      hint.textContent = chosen < 0 ? "Choose one. Nobody is watching."
        : options[chosen].right ? "" : "Try another one.";
    }

    function choose(i) {
      record = { chosen: i, right: options[i].right, tries: (record?.tries ?? 0) + 1, first: record?.first ?? i };
      kept.write(record);
      model.set("chosen", record);
      model.save_changes();
      show();
      say(`${options[i].right ? "Right." : "Not quite."} ${options[i].feedback}`);
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
  },
};
