"""Stored files, copied to where a test may write, and the command line run among them as a user would."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from deep_bench.cli import main

FOLDER = Path(__file__).parent
RECORDS = FOLDER / "records"
WIDTH = 140
"""Of tables, in columns."""

Texts = Mapping[str, Callable[[], str]]
"""The file of each stored text, below this folder, and what makes the text anew in the working folder of the records."""


def public(package: str, name: str = "") -> Any:
    """A public package, or a name of it; it may have moved, and warn of its new place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = import_module(package)
        return getattr(module, name) if name else module


@contextlib.contextmanager
def among_records(copy: Path) -> Iterator[None]:
    """Work in a copy of the stored records, with no user's cache, and with tables of one width.

    Args:
        copy: A folder that does not exist yet.
    """
    shutil.copytree(RECORDS, copy)
    before, variables = Path.cwd(), dict(os.environ)
    os.environ.update(COLUMNS=str(WIDTH), DEEP_BENCH_CACHE=str(copy.parent / "cache"), TERM="dumb", NO_COLOR="1")
    os.chdir(copy)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(variables)


def command_line(words: list[str]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of ``deep-bench`` with these words."""
    output, errors = io.StringIO(), io.StringIO()
    path, handler = list(sys.path), signal.getsignal(signal.SIGTERM)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            main(words)
        raise AssertionError("the command line exits")
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        sys.path[:] = path
        signal.signal(signal.SIGTERM, handler)
    return status, output.getvalue(), errors.getvalue()


def transcript(line: str, *files: str) -> str:
    """A command with its exit status, all that it printed, and the text files that it wrote, as one text."""
    status, output, errors = command_line(line.split())
    parts = [f"$ deep-bench {line}\n[exit status {status}]\n{output}"]
    if errors:
        parts.append(f"[standard error]\n{errors}")
    parts += [f"[{file}]\n{Path(file).read_text(encoding='utf-8')}" for file in files]
    return without_trailing_blanks(without_chance("\n".join(parts)))


def without_chance(text: str) -> str:
    """The text with words for what differs each time, or from one version of the code to the next.

    These are the folder that the records were copied to, identifiers that are drawn, and lines of the code that log.
    """
    text = text.replace(str(Path.cwd()), "FOLDER")
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "IDENTIFIER", text)
    return re.sub(r"\(deep_bench/[\w/]+\.py:\d+\)", "(CODE)", text)


def without_trailing_blanks(text: str) -> str:
    """The text as editors and version control leave it: no blanks at the ends of lines, one line feed at its end."""
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip() + "\n"


def stored(file: str) -> str:
    """A stored text; empty where there is none yet."""
    path = FOLDER / file
    return path.read_text(encoding="utf-8") if path.exists() else ""
