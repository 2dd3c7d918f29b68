"""Where native code comes from: a file, a text, or a library that is built already."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deep_bench.errors import InvalidArgument

Language = Literal["C", "C++", "CUDA"]

SUFFIXES: dict[str, Language] = {".c": "C", ".cc": "C++", ".cpp": "C++", ".cu": "CUDA", ".cxx": "C++"}
LIBRARIES = (".so", ".dylib")
_LIBRARY = re.compile(r"\.(so(\.\d+)*|dylib)$")
_NAMES: dict[Language, str] = {"C": "kernel.c", "C++": "kernel.cpp", "CUDA": "kernel.cu"}


@dataclass(frozen=True)
class Source:
    """Native code to compile.

    Args:
        text: All of it.
        language: What it is written in.
        name: The file name that the compiler's messages have.
        folder: Where its own headers are; ``None`` for a text.
    """

    text: str
    language: Language
    name: str
    folder: Path | None = None


def read(source: str | Path, device: str) -> Source | Path:
    """The source, or the path of a library that is built already.

    A string with a line break, a semicolon or a brace in it is a text: C++, or CUDA where ``device`` is that.

    Raises:
        InvalidArgument: No such file, one with an unknown suffix, one that cannot be read, or a device that does not fit.
    """
    if isinstance(source, str) and re.search(r"[\n;{]", source):
        language: Language = "CUDA" if device == "cuda" else "C++"
        return Source(source, language, _NAMES[language])
    path = Path(source).expanduser().absolute()
    if not path.is_file():
        reason = "is a folder" if path.is_dir() else "is not there"
        raise InvalidArgument(f"the native source {path} {reason}", "a file, or the source itself as a string")
    if _LIBRARY.search(path.name):
        return path
    file_language = SUFFIXES.get(path.suffix)
    if file_language is None:
        suffixes = ", ".join([*SUFFIXES, *LIBRARIES])
        raise InvalidArgument(f"the native source {path} ends with {path.suffix or 'nothing'!r}", f"one of {suffixes}")
    if file_language == "CUDA" and device != "cuda":
        raise InvalidArgument(
            f"the CUDA source {path} with device={device!r}",
            "device='cuda' for CUDA",
            "say device='cuda', or rename it to .cpp",
        )
    try:
        return Source(path.read_text(encoding="utf-8"), file_language, path.name, path.parent)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the native source {path} cannot be read: {error}", "a text file in UTF-8") from error
