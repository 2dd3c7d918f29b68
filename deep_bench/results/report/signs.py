"""Verdicts, and whether rules hold: words, each with a sign of its own shape, so that no colour is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["good", "doubt", "bad", "open"]


@dataclass(frozen=True)
class Mark:
    """How a word is shown.

    Args:
        character: In text.
        tone: Which colour.
        path: In a square of 16, as SVG has it.
    """

    character: str
    tone: Tone
    path: str


_DISC = "M8 1a7 7 0 1 0 0 14A7 7 0 1 0 8 1z"
_RING = f"{_DISC}M8 2.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 1 1 8 2.6z"
_CHECK = "M4.2 8.4l2.6 2.7 5-5.6-1.2-1.1-3.9 4.4-1.4-1.5z"
_CROSS = "M4 5.2L6.8 8 4 10.8 5.2 12 8 9.2l2.8 2.8 1.2-1.2L9.2 8 12 5.2 10.8 4 8 6.8 5.2 4z"

MARKS = {
    "right": Mark("✓", "good", _DISC + _CHECK),
    "reduced precision": Mark("◐", "doubt", f"{_RING}M8 2v12A6 6 0 0 0 8 2z"),
    "wrong": Mark("✗", "bad", f"M1.5 1.5h13v13h-13z{_CROSS}"),
    "cannot tell": Mark("?", "doubt", "M8 .6L15.4 8 8 15.4.6 8zM8 2.9L2.9 8 8 13.1 13.1 8zM7 9h2v1.8H7zM7 4.8h2v3.4H7z"),
    "no information": Mark("∅", "open", f"{_RING}M4.5 7.2h7v1.6h-7z"),
    "failed": Mark("!", "bad", "M8 .8L15.6 14.6H.4zM7.1 5.4h1.8v4.8H7.1zM7.1 11.3h1.8v1.8H7.1z"),
    "unchecked": Mark("○", "open", _RING),
}  # fmt: skip
"""The verdicts, from what is good news on."""

STATES = {"holds": MARKS["right"], "fails": MARKS["wrong"], "does not apply": MARKS["no information"]}
"""What a rule can do."""

OTHER = MARKS["unchecked"]


TONES: dict[Tone, str] = {"good": "#00664d", "doubt": "#7a4a00", "bad": "#a33100", "open": "#4a525c"}
"""Colours that differ in lightness as well, each with a contrast of 7 to 1 to white or nearly so."""


def mark(word: str) -> Mark:
    """How a word is shown; one that is not known, which only a stranger's record can have, as what was not checked.

    Example:
        >>> mark("wrong").character, mark("holds").character, mark("splendid").character
        ('✗', '✓', '○')
    """
    return MARKS.get(word) or STATES.get(word) or OTHER
