"""The words of a command line: which name files that a run reads, and which files that it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

WRITES = frozenset({"--output", "-o", "--plot", "--json", "--checkpoints", "--trace", "--record", "--save"})
"""Options whose value is written."""

AGAIN = "repeated"
"""The folder that a repeated run writes to."""

Use: TypeAlias = Literal["word", "reads", "writes"]


@dataclass(frozen=True)
class Word:
    """One word, or the part of one that names a file.

    Args:
        before: What stands in front of it in the same word: ``"data.root="``.
        text: The word, or the name.
        after: What follows: ``":FastGelu"`` of ``kernels.py:FastGelu``.
        use: Whether it names something, and what for.
    """

    before: str
    text: str
    after: str = ""
    use: Use = "word"

    def named(self, path: str) -> str:
        """The word with another path."""
        return f"{self.before}{path}{self.after}"

    def __str__(self) -> str:
        return self.named(self.text)


def words(command: Sequence[str], folder: Path) -> list[Word]:
    """The words of a command, the program's own name included.

    A word that names a file or a folder which is there is read; the value of an option such as ``--output`` is written. Also
    parts of words are looked at: ``data.root=DATA``, ``--cases=FILE``, ``kernels.py:FastGelu``.

    Args:
        command: As the record has it.
        folder: Where it was given.

    Example:
        >>> [(word.text, word.use) for word in words(["deep-bench", "run", "digits-cnn", "--output", "mine"], Path())]
        [('deep-bench', 'word'), ('run', 'word'), ('digits-cnn', 'word'), ('--output', 'word'), ('mine', 'writes')]
    """
    return list(_words(command, folder))


def _words(command: Sequence[str], folder: Path) -> Iterator[Word]:
    writes = False
    for text in command:
        if writes:
            yield Word("", text, use="writes")
            writes = False
            continue
        writes = text in WRITES
        option, equals, value = text.partition("=")
        if equals and option in WRITES:
            yield Word(f"{option}=", value, use="writes")
        else:
            yield _reads(text, folder)


def _reads(text: str, folder: Path) -> Word:
    before, equals, value = text.rpartition("=")
    for head, name in (("", text), (f"{before}{equals}", value)):
        file, colon, rest = name.partition(":")
        for path, tail in ((name, ""), (file, f"{colon}{rest}")):
            if _is_path(path, folder):
                return Word(head, path, tail, use="reads")
    return Word("", text)


def _is_path(text: str, folder: Path) -> bool:
    """Whether something is there under a name that is written as one of a file: ``train`` and ``.`` are none."""
    if not text or text.startswith("-") or not ("/" in text or "." in text.strip(".")):
        return False
    try:
        return (folder / text).exists()
    except (OSError, ValueError):  # too long a name, or one with a null character
        return False
