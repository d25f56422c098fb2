"""Makes the picture in the README, of the real widget in Chromium: python docs/make_picture.py

The map was learned: the cells of lesson 01 that are tagged "picture" train it, here as there.
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from playwright.sync_api import sync_playwright
from torch import nn

from tests.browser.pages import chromium, page_of, write_page
from tfcourse.authoring.lesson import Lesson
from tfcourse.widgets import AttentionMap

HERE = Path(__file__).parent
lesson = Lesson(HERE.parent / "solutions" / "01_attention.py")
made = {"torch": torch, "F": F, "nn": nn}
for cell in lesson.source.cells:
    if "picture" in cell.metadata.get("tags", []):
        exec(compile(cell.source, str(lesson.path), "exec"), made)

view = AttentionMap(
    torch.stack(made["maps"][::-1]),
    made["questions"],
    made["cards"],
    names=["after training", "before training"],
    title="Which card does each question look at? Nobody told it.",
)

with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
    browser = chromium(playwright)
    page = browser.new_page(viewport={"width": 760, "height": 760}, device_scale_factor=1.5)
    page.goto(write_page(folder, page_of([view])))
    page.locator(".head").nth(0).click()
    page.locator(".map").focus()
    for key in ["ArrowDown", "ArrowRight"]:
        page.keyboard.press(key)
    page.wait_for_timeout(600)
    page.locator(".view").screenshot(path=HERE / "attention_map.png")
    browser.close()
