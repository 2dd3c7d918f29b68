"""Docstrings as this project writes them, where Sphinx reads them otherwise."""

from __future__ import annotations

from typing import Any, Generic

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring


def _all_text(docstring: GoogleDocstring) -> tuple[str, list[str]]:
    """Of a constant or property all is text; napoleon takes what stands before the first colon for its type."""
    return "", docstring._consume_to_end()


def _without_plain_bases(app: Sphinx, name: str, obj: Any, options: Any, bases: list[Any]) -> None:
    del app, name, obj, options
    bases[:] = [base for base in bases if base not in (object, Generic)]


def _drop_empty_bases(app: Sphinx, document: nodes.document) -> None:
    del app
    for line in [p for p in document.findall(nodes.paragraph) if p.astext().strip() == "Bases:"]:
        line.parent.remove(line)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    GoogleDocstring._consume_inline_attribute = _all_text  # type: ignore[method-assign]
    app.connect("autodoc-process-bases", _without_plain_bases)
    app.connect("doctree-read", _drop_empty_bases)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
