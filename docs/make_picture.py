"""Makes the picture in the README, of the real widget in Chromium: python docs/make_picture.py"""

import tempfile
from pathlib import Path

import torch
from playwright.sync_api import sync_playwright
from torch import nn

from tests.browser.pages import chromium, page_of, write_page
from tfcourse import attention
from tfcourse.widgets import AttentionMap

WORDS = ["it", "was", "the", "best", "of", "times", "it", "was", "the", "worst", "of", "times"]

torch.manual_seed(0)
module = attention.MultiHeadAttention(d_model=48, n_heads=6)
embedded = nn.Embedding(20, 48)(torch.tensor([sorted(set(WORDS)).index(w) for w in WORDS]))
_, weights = module(embedded[None] * 2, causal=True, return_weights=True)
view = AttentionMap(
    weights[0], WORDS, mask=attention.causal_mask(12), title="What do six untrained heads look at?"
)

with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
    browser = chromium(playwright)
    page = browser.new_page(viewport={"width": 760, "height": 760}, device_scale_factor=1.5)
    page.goto(write_page(folder, page_of([view])))
    page.locator(".head").nth(4).click()
    page.locator(".map").focus()
    for key in [*["ArrowDown"] * 6, *["ArrowRight"] * 5]:
        page.keyboard.press(key)
    page.wait_for_timeout(600)
    picture = Path(__file__).with_name("attention_map.png")
    page.locator(".view").screenshot(path=picture)
    browser.close()
