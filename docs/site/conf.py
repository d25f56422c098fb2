"""How Sphinx makes the published pages of what tfcourse/authoring/site.py prepares."""

import re

from docutils import nodes
from latex2mathml.converter import convert

project = "tfcourse"
html_title = "tfcourse"
language = "en"
extensions = ["myst_nb"]

nb_execution_mode = "off"  # the notebooks come run
nb_mime_priority_overrides = [("html", "text/html", 0)]  # a live view before its picture
nb_merge_streams = True
nb_code_prompt_show = "Made your prediction? Show what came out"
nb_code_prompt_hide = "Hide it again"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3  # a link can lead to glossary.ipynb#KV-cache, here as in JupyterLab
myst_heading_slug_func = "tfcourse.authoring.lesson.anchor"
# Text of a lesson means what it means in Jupyter: these are MyST's own.
myst_disable_syntax = ["myst_line_comment", "myst_block_break", "myst_target", "myst_role"]

html_theme = "furo"
pygments_dark_style = "github-dark"  # Furo's own underlines what is imported
html_static_path = ["static"]
html_favicon = "static/icon.svg"
html_css_files = ["pages.css", "drawings.css"]
html_js_files = [("pages.js", {"defer": "defer"})]
html_math_renderer = "mathml"
html_copy_source = html_show_sourcelink = False
html_use_index = False
html_show_search_summary = False  # it would fetch every page that is found
html_show_copyright = False


def mathml(latex, display="inline"):
    """A formula as MathML, a function's name in it as one word: cos θ, not c o s θ or cosθ."""
    word = r"<m[io]>([A-Za-z]{2,})</m[io]>"
    return re.sub(word, r'<mi class="function">\1</mi>', convert(latex, display=display))


def inline_formula(writer, node):
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def formula(writer, node):
    writer.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app):
    # Sphinx's MathJax comes from another host. MathML needs no script: browsers draw it.
    app.add_html_math_renderer("mathml", (inline_formula, None), (formula, None))
