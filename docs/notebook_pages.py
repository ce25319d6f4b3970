"""Notebooks as pages: files of Python with cells are executed, and their outputs put below them."""

from __future__ import annotations

from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.py"))


def executed(name: str) -> NotebookNode:
    """A notebook with its outputs; a cell that fails is an error."""
    notebook: NotebookNode = jupytext.read(FOLDER / f"{name}.py")
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    return notebook


def notebook_page(name: str) -> str:
    """An executed notebook in Markdown."""
    parts = []
    for cell in executed(name).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts += [f"```python\n{cell.source}\n```", *map(_shown, cell.outputs)]
    return "\n\n".join(part for part in parts if part)


def _shown(output: NotebookNode) -> str:
    """What a cell has printed, or its value: HTML, a picture or text."""
    if output.output_type == "stream":
        return "" if output.name == "stderr" else f"```text\n{output.text.rstrip()}\n```"
    data = output.data
    if "text/html" in data:
        return f'<div class="notebook">{data["text/html"]}</div>'
    if "image/png" in data:
        picture = "".join(data["image/png"].split())
        return f'<img alt="{data["text/plain"]}" src="data:image/png;base64,{picture}">'
    return f"```text\n{data['text/plain']}\n```"
