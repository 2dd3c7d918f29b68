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


def _visit(translator: Any, node: nodes.Element) -> None:
    block = isinstance(node, nodes.math_block)
    text = _FRACTION.sub(r"\\\1{\2}{\3}", _SIZES.sub("", node.astext()))
    try:
        formula = tex2mathml(text, as_block=block)
    except MathError as error:
        logging.getLogger(__name__).warning("no MathML for %r: %s", node.astext(), error, location=node)
        raise nodes.SkipNode from error
    translator.body.append(formula)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(_visit, None), block_renderers=(_visit, None))
    app.config.html_math_renderer = "mathml"  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
