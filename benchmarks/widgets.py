"""How fast AttentionMap paints and switches heads, measured in Chromium: `make bench`.

12 heads of 512 × 512 random weights, the module on a bare page, its data as the bytes that an
anywidget hands over. "Painted" is the first frame after the work: two animation frames.
"""

import base64
import json
import platform
import statistics

import numpy as np
from playwright.sync_api import sync_playwright

from tests.browser.pages import chromium
from tfcourse.widgets import AttentionMap
from tfcourse.widgets.view import module_source

ROUNDS = 9

MEASURE = """async ({ source, state, data, rounds }) => {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { default: view } = await import(url);
  const painted = () => new Promise((done) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => done(performance.now());
    channel.port2.postMessage(0);
  }));
  const values = { state, data: new DataView(bytes.buffer) };
  const first = [], work = [], heads = [], hovers = [];
  for (let i = 0; i < rounds; i++) {
    const el = document.createElement("div");
    document.body.replaceChildren(el);
    await painted();
    const started = performance.now();
    await view.render({ model: { get: (n) => values[n], set() {}, save_changes() {}, on() {}, off() {} }, el });
    work.push(performance.now() - started);
    first.push(await painted() - started);
    await new Promise((done) => setTimeout(done, 400));  // the thumbnails
    const root = el.shadowRoot;
    for (const button of [...root.querySelectorAll(".head")].slice(1, 6)) {
      const from = performance.now();
      button.click();
      heads.push(performance.now() - from);
      await painted();
    }
    const canvas = root.querySelector(".map canvas");
    const box = canvas.getBoundingClientRect();
    for (let j = 0; j < 10; j++) {
      const from = performance.now();
      canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.x + 150 + 9 * j, clientY: box.y + 160 + 11 * j }));
      hovers.push(await painted() - from);
    }
  }
  return { "first paint": first, "its work alone": work, "head switch, work": heads, "hover to painted": hovers };
}"""


def main():
    """Measure and print a table."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(512, 0.05), size=(12, 512))
    view = AttentionMap(weights, [f"t{i}" for i in range(512)], title="Bench")
    given = {
        "source": module_source(view.module),
        "state": json.loads(json.dumps(view.state)),
        "data": base64.b64encode(view.data).decode(),
        "rounds": ROUNDS,
    }
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        version = browser.version
        page = browser.new_page(viewport={"width": 900, "height": 900})
        page.goto("about:blank")
        measured = page.evaluate(MEASURE, given)
        browser.close()
    print(f"\nAttentionMap, 12 × 512 × 512, Chromium {version}, {platform.machine()}\n")
    print("| measure | median ms | least | most |\n|---|---|---|---|")
    for name, times in measured.items():
        row = (statistics.median(times), min(times), max(times))
        print(f"| {name} | {' | '.join(f'{t:.1f}' for t in row)} |")


if __name__ == "__main__":
    main()
