"""A matplotlib figure as SVG that can stand within a page: unique names, no style of its own, no reference outwards."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.text import Text

from deep_bench.measure.pictures import new_figure
from deep_bench.results.report.model import Picture, clean

WIDTH = 4.7
"""Of a panel, in inches: two stand beside each other on a page, and one fits a telephone."""

_LONGEST, _LONGEST_UPRIGHT = 62, 34
"""Characters of a text in a panel, and of one that stands beside a vertical axis."""

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONTS = "system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif"
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_LOCAL = re.compile(r"url\(#([^)]+)\)")
_LOOK: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and enlarged
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "axes.unicode_minus": False,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
}


def picture(name: str, height: float, draw: Callable[[Figure], None], *, alt: str, caption: str) -> Picture:
    """Draw a panel.

    Args:
        name: Of the plot: the same name and data give the same bytes.
        height: In inches.
        draw: Fills the empty figure that it is given.
        alt: What it shows.
        caption: Below it.
    """
    with mpl.rc_context({**_LOOK, "svg.hashsalt": name}):
        figure = new_figure(height, WIDTH)
        draw(figure)
        for text in figure.findobj(Text):
            _shorten(text)
        out = io.StringIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # the page's fonts show the text, not matplotlib's
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Picture(name, within_page(out.getvalue(), name, alt), clean(alt), clean(caption))


def _shorten(text: Any) -> None:
    """See that a text is one that can be shown, and leaves room for what is drawn."""
    words, most = clean(text.get_text()), _LONGEST_UPRIGHT if text.get_rotation() else _LONGEST
    text.set_text(words if len(words) <= most else f"{words[: most - 1]}…")


def within_page(source: str, name: str, alt: str) -> str:
    """SVG as matplotlib writes it, made fit to stand in a page beside others.

    Names get that of the plot in front, those to which nothing refers go; so do style sheets, which would reach out to the
    page, and the fonts, so that the page's own is taken.
    """
    root = ElementTree.fromstring(source)
    for parent in root.iter():
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    numbers = {reference: f"{name}-{number}" for number, reference in enumerate(_referred(root))}
    for element in root.iter():
        _mend(element, numbers)
    width, height = (float(part) for part in root.attrib["viewBox"].split()[2:])
    root.attrib |= {
        "width": f"{width * 4 / 3:.0f}", "height": f"{height * 4 / 3:.0f}", "role": "img", "aria-label": clean(alt),
        "font-family": _FONTS, "fill": "#1b1f24", "style": "stroke-linejoin:round;stroke-linecap:butt",
    }  # fmt: skip
    root.attrib.pop("version", None)
    ElementTree.register_namespace("", _SVG[1:-1])
    return ElementTree.tostring(root, encoding="unicode")


def _referred(root: ElementTree.Element) -> list[str]:
    """The names to which something refers, in their order."""
    references: dict[str, None] = {}
    for element in root.iter():
        for key, value in element.attrib.items():
            references |= dict.fromkeys([value[1:]] if key == _HREF else _LOCAL.findall(value))
    return list(references)


def _mend(element: ElementTree.Element, numbers: dict[str, str]) -> None:
    attributes: dict[str, Any] = {}
    for key, value in element.attrib.items():
        if key == "id":
            if value in numbers:
                attributes["id"] = numbers[value]
        elif key == _HREF:
            attributes["href"] = f"#{numbers[value[1:]]}"
        elif key == "style":
            attributes["style"] = _style(_LOCAL.sub(lambda match: f"url(#{numbers[match[1]]})", value))
        else:
            value = _LOCAL.sub(lambda match: f"url(#{numbers[match[1]]})", value)
            attributes[key] = _NUMBER.sub(lambda match: f"{float(match[0]):.2f}", value)
    element.attrib.clear()
    element.attrib.update(attributes)


def _style(style: str) -> str:
    """Without the family of the font."""
    parts = [re.sub(r"^font:\s*", "font:", part.strip()) for part in style.split(";")]
    declarations = []
    for part in parts:
        if part.startswith("font:"):
            declarations += [f"font-size:{size}" for size in re.findall(r"[\d.]+px", part)[:1]]
        elif part and not part.startswith("font-family"):
            declarations.append(part)
    return ";".join(declarations)
