"""What a learner predicts is not answered in the stored notebook: it comes when the cell is run.

A cell tagged `after-prediction` keeps its code and stores one line in place of its outputs. Where
the tests compare those outputs (`nbval-check-output`), they are kept in the cell's metadata, in a
form that nobody reads by accident, and `restored` puts them back.
"""

from __future__ import annotations

import base64
import json
import zlib

import nbformat
from nbformat import NotebookNode

TAG = "after-prediction"
COMPARED = "nbval-check-output"
INSTEAD = "Run this cell to see."


def withhold(notebook: NotebookNode) -> None:
    """Take the outputs of every cell with the tag out of a notebook that was run."""
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type != "code" or TAG not in tags:
            continue
        if COMPARED in tags:  # without its outputs the cell would fail wherever nbval runs it
            packed = zlib.compress(json.dumps(cell.outputs).encode(), 9)
            cell.metadata.withheld = base64.b64encode(packed).decode()
            cell.metadata.tags = [tag for tag in tags if tag != COMPARED]
        cell.outputs = [nbformat.v4.new_output("display_data", {"text/plain": INSTEAD})]


def restored(notebook: NotebookNode) -> NotebookNode:
    """The notebook with all outputs that are to be compared, as nbval wants it."""
    for cell in notebook.cells:
        if "withheld" in cell.metadata:
            packed = base64.b64decode(cell.metadata.pop("withheld"))
            cell.outputs = [nbformat.from_dict(o) for o in json.loads(zlib.decompress(packed))]
            cell.metadata.tags.append(COMPARED)
    return notebook
