"""The words of a command line: which name files that a run reads, and which files that it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

FOLDERS = frozenset({"--output", "-o", "--overwrite"})
"""Options whose value is the folder that records are written to."""

_FILES = frozenset({"--plot", "--json", "--checkpoints", "--trace", "--record", "--save"})
"""Options whose value is something else that is written."""

_JSON_IS_A_FLAG = frozenset({"mlperf", "recipe", "run", "scale", "train"})
"""Verbs whose ``--json`` takes no value."""

AGAIN = "repeated"
"""The folder that a repeated run writes to."""

READ = frozenset(
    {".csv", ".data", ".h5", ".hdf5", ".jsonl", ".npy", ".npz", ".onnx", ".parquet", ".py", ".toml", ".yaml", ".yml"}
)
"""How names end that can only be names of files that are read."""

Use: TypeAlias = Literal["word", "reads", "missing", "writes"]


@dataclass(frozen=True)
class Word:
    """One word, or the part of one that names a file.

    Args:
        before: What stands in front of it in the same word: ``"data.root="``.
        text: The word, or the name.
        after: What follows: ``":FastGelu"`` of ``kernels.py:FastGelu``.
        use: Whether it names something, and what for; ``"missing"`` for a file to be read that is not there.
        option: The option whose value it is, if it is written.
    """

    before: str
    text: str
    after: str = ""
    use: Use = "word"
    option: str = ""

    def named(self, path: str) -> str:
        """The word with another path."""
        return f"{self.before}{path}{self.after}"

    def again(self) -> str:
        """What is written, below the folder of a repeated run."""
        return self.named(AGAIN if self.option in FOLDERS else f"{AGAIN}/{PurePosixPath(self.text).name}")

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
        >>> [(word.text, word.use) for word in words(["deep-bench", "run", "a.onnx", "--output", "mine"], Path("nowhere"))]
        [('deep-bench', 'word'), ('run', 'word'), ('a.onnx', 'missing'), ('--output', 'word'), ('mine', 'writes')]
    """
    return list(_words(command, folder))


def writing(command: Sequence[str]) -> frozenset[str]:
    """The options of a command whose values are written."""
    return FOLDERS | (_FILES - {"--json"} if _JSON_IS_A_FLAG.intersection(command[1:2]) else _FILES)


def _words(command: Sequence[str], folder: Path) -> Iterator[Word]:
    options, option = writing(command), ""
    for text in command:
        if option:
            yield Word("", text, use="writes", option=option)
            option = ""
            continue
        option = text if text in options else ""
        name, equals, value = text.partition("=")
        if equals and name in options:
            yield Word(f"{name}=", value, use="writes", option=name)
        else:
            yield used(text, folder)


def used(text: str, folder: Path) -> Word:
    """A word by itself: whether it, or a part of it, names what is in a folder, or a file that is missing there."""
    before, equals, value = text.rpartition("=")
    missing = None
    for head, name in (("", text), (f"{before}{equals}", value)):
        file, colon, remainder = name.partition(":")
        for path, tail in ((name, ""), (file, f"{colon}{remainder}")):
            if _is_there(path, folder):
                return Word(head, path, tail, use="reads")
            if _is_file(path):
                missing = Word(head, path, tail, use="missing")
    return missing or Word("", text)


def _is_there(text: str, folder: Path) -> bool:
    """Whether something is there under a name that is written as one of a file: ``train`` and ``.`` are none."""
    if not text or text.startswith("-") or not ("/" in text or "." in text.strip(".")):
        return False
    try:
        return (folder / text).exists()
    except (OSError, ValueError):  # too long a name, or one with a null character
        return False


def _is_file(text: str) -> bool:
    """Whether a name can only be that of a file: ``net.onnx``, and not ``torch:threads=1`` or a sentence."""
    return PurePosixPath(text).suffix in READ and text.isprintable() and not text.startswith("-") and " " not in text
