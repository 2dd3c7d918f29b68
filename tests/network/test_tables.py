"""Tables that are printed into little room: nothing is cut, and no figure is broken."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

import deep_bench as db
from deep_bench.cli import main
from deep_bench.records.table import columns, print_table

WIDTHS = ["40", "80", "200", None]
SYSTEM = "reference:algorithms=a_rather_long_name_of_some_option"


def contents(text: str) -> str:
    """All letters of a table, column by column, so that folded names are whole again."""
    found = []
    for part in text.split("┏"):
        rows = [re.split("[│┃]", line)[1:-1] for line in part.splitlines() if line[:1] in "│┃" and line]
        found += ["".join(cell.strip() for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(found)


@pytest.mark.parametrize("width", range(1, 130, 8))
def test_nothing_is_cut(width: int) -> None:
    names = ["encoder/layer.11/attention/self/query/MatMul", "x", "a title in words that goes on"]
    figures = ["12.34 ms  45.6 %", "* 1.2 µs | 3.4 µs 100.0 %", "–"]
    table = Table("node", "operator", title=Text("many words " * 9), pad_edge=False)
    for head in ("FLOP", SYSTEM):
        table.add_column(Text(head), justify="right")
    for name, figure in zip(names, figures, strict=True):
        table.add_row(Text(name), name[::-1], "295 k", figure)
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    print_table(console, table)
    text = out.getvalue()
    assert console.width == width
    assert "…" not in text
    assert all(figure in text for figure in figures)
    assert text.count("295 k") == 3
    assert max(len(line) for line in text.splitlines() if line[0] in "┏┡└│") <= max(width, 55)  # node and longest figure: 55
    whole = contents(text).replace(" ", "")
    assert all(name.replace(" ", "") in whole and name[::-1].replace(" ", "") in whole for name in names)
    assert SYSTEM in whole
    assert sum(line.count("many") for line in text.splitlines()) >= 9 or width < 4


def test_every_part_has_the_columns_that_tell_its_rows_apart() -> None:
    table = Table("case", "contestant", "verdict")
    for number in range(6):
        table.add_column(f"quantity {number}", justify="right")
    table.add_row("8x1024", "FastGelu", "right", *(f"{n}.2 ms ({n}.1 to {n}.3)" for n in range(6)), end_section=True)
    table.add_row("", "torch", "wrong", *(f"{n}.5 ms ({n}.4 to {n}.6)" for n in range(6)))
    out = io.StringIO()
    print_table(Console(file=out, width=80, color_system=None), table, keys=2)
    parts = out.getvalue().split("┏")[1:]
    assert len(parts) > 2
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert all("┃ case   ┃ contestant ┃" in part and "│ 8x1024 │ FastGelu   │" in part for part in parts)
    assert all("├" in part for part in parts)
    assert out.getvalue().count("verdict") == out.getvalue().count("5.5 ms") == 1


def test_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    for stated, expected in (("40", 40), ("0", 160), ("wide", 160), ("-3", 160), (None, 160)):
        monkeypatch.delenv("COLUMNS", raising=False)
        if stated is not None:
            monkeypatch.setenv("COLUMNS", stated)
        assert columns() == expected


@pytest.mark.parametrize("width", WIDTHS)
def test_profile_and_diverge_cut_nothing(width: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if width is not None:
        monkeypatch.setenv("COLUMNS", width)
    found = db.network.profile("digits-cnn", ["reference"], batch=1, repeat=2, in_process=True, progress=False)
    text = found.table(None)
    assert "…" not in text.replace(" … ", "")
    whole = contents(text.split("\n\n")[0]).replace(" ", "")
    for row in found.rows:
        assert row.label in whole
    for line in ("a call that nobody observes", "forward, from and to NumPy, checked"):
        assert line.replace(" ", "") in contents(text.split("\n\n")[1]).replace(" ", "")
    diverged = db.network.diverge("digits-cnn", "reference", batch=1, progress=False)
    table = diverged.table(every=True)
    assert "…" not in table
    assert all(node.name in contents(table) and node.operator in contents(table) for node in diverged.nodes)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("verb", ["doctor", "list"])
def test_the_small_verbs_cut_nothing(
    verb: str, width: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if width is not None:
        monkeypatch.setenv("COLUMNS", width)
    if verb == "list":
        monkeypatch.setattr(
            "deep_bench.cli.list._row",
            lambda name: (
                dict.fromkeys(("version", "device"), "1." * 40)
                | {"name": name, "options": {"an_option": "str"}, "problem": None}
            ),
        )
    with pytest.raises(SystemExit):
        main([verb])
    assert "…" not in capsys.readouterr().out
