"""The help of every verb and of every verb within a verb, to the letter."""

from __future__ import annotations

import re
import sys

import click
import pytest

from tests.stored.stored import FOLDER, Texts, command_line, stored, without_trailing_blanks


def _help(words: list[str]) -> str:
    status, output, errors = command_line([*words, "--help"])
    assert (status, errors) == (0, "")
    return without_trailing_blanks(output)


def _verbs(words: list[str]) -> list[list[str]]:
    """These words, and all verbs below them, as their help lists them."""
    listed = re.search(r"^(?:Verbs|Commands):\n((?:  .*\n)+)", _help(words), re.MULTILINE)
    names = re.findall(r"^  ([a-z]\S*)", listed[1], re.MULTILINE) if listed else []
    return [words, *(below for name in names for below in _verbs([*words, name]))]


def _file(words: list[str]) -> str:
    return f"help/{'/'.join(words) or 'deep-bench'}.txt"


def texts() -> Texts:
    """The help of all verbs that there are now."""
    return {_file(words): lambda words=words: _help(words) for words in _verbs([])}


STORED = sorted(path.relative_to(FOLDER / "help").with_suffix("").as_posix() for path in FOLDER.glob("help/**/*.txt"))


@pytest.fixture(autouse=True)
def _one_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(autouse=True)
def _help_of_the_whole_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the option ``--help`` that click keeps of a verb which another test ran by itself, where there is no ``-h``."""
    for name, module in list(sys.modules.items()):
        for value in vars(module).values() if name.startswith("deep_bench.cli") else ():
            if isinstance(value, click.Command):
                monkeypatch.setattr(value, "_help_option", None)


@pytest.mark.parametrize("verb", STORED)
def test_help_is_as_stored(verb: str) -> None:
    words = [] if verb == "deep-bench" else verb.split("/")
    assert _help(words) == stored(f"help/{verb}.txt")


def test_no_verb_is_missing_or_new() -> None:
    assert sorted(_file(words) for words in _verbs([])) == [f"help/{verb}.txt" for verb in STORED]
