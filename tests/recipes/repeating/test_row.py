"""`tests/row.sh` does in earnest what the page on publishing says; here only that both are the same, and can be read."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click

from deep_bench.cli import _cli

ROOT = Path(__file__).parents[3]
ROW = ROOT / "tests" / "row.sh"
PAGE = ROOT / "docs" / "howto" / "publish.md"


def test_the_page_and_the_script_have_the_same_commands() -> None:
    shown = re.findall(r"^\$ (deep-bench .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    done = re.findall(r"^step 0 (deep-bench .*)$", ROW.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown == done


def test_each_command_can_be_read() -> None:
    for line in re.findall(r"^step \d (deep-bench .*)$", ROW.read_text(encoding="utf-8"), re.MULTILINE):
        verb: click.Command = _cli
        for word in shlex.split(line)[1:]:
            if not isinstance(verb, click.Group) or (found := verb.get_command(click.Context(verb), word)) is None:
                break
            verb = found
        known = {option for param in verb.params for option in param.opts}
        assert {word for word in shlex.split(line) if word.startswith("-")} <= known, line


def test_the_script_is_one() -> None:
    subprocess.run(["bash", "-n", ROW], check=True)
    assert ROW.stat().st_mode & 0o100
