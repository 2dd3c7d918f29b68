"""Formulas as MathML, which browsers set themselves: no script, no font, no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

_SIZES = re.compile(r"\\(?:text|display)style\b|\\[bB]igg?[lrm]?\b")
"""Hints that MathML does without: delimiters grow by themselves."""

_FRACTION = re.compile(r"\\([td]?frac)\s*(\d)\s*(\d)")
"""One half may be written without braces; the converter wants them."""


def mathml(formula: str, *, block: bool = False) -> str:
    """A formula of LaTeX as an element of MathML.

    Raises:
        MathError: It uses a command that the converter does not know.
    """
    return tex2mathml(_FRACTION.sub(r"\\\1{\2}{\3}", _SIZES.sub("", formula)), as_block=block)


def _visit(translator: Any, node: nodes.Element) -> None:
    try:
        translator.body.append(mathml(node.astext(), block=isinstance(node, nodes.math_block)))
    except MathError as error:
        logging.getLogger(__name__).warning("no MathML for %r: %s", node.astext(), error, location=node)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(_visit, None), block_renderers=(_visit, None))
    app.config.html_math_renderer = "mathml"  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
