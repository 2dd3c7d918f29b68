"""The generalised pattern in the language of LogGOPSim, message by message.

Source:
    Hoefler, Siebert and Lumsdaine, *Group operation assembly language: a flexible way to express collective communication*,
    ICPP 2009; Hoefler, Schneider and Lumsdaine, *LogGOPSim: simulating large-scale applications in the LogGOPS model*,
    LSAP at HPDC 2010; the text that its ``txt2bin`` reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from deep_bench.distributed.scaling.program import Computing, Program, whole
from deep_bench.distributed.scaling.schedules import Round
from deep_bench.errors import InvalidArgument
from deep_bench.measure.storage import replace

_LINE = re.compile(r"(l\d+): (?:calc (\d+)|(send|recv) (\d+)b (?:to|from) (\d+) tag (\d+))")
_NEEDS = re.compile(r"(l\d+) requires (l\d+)")


def write_goal(program: Program, path: Path) -> Path:
    """Write what each rank does. Times are in nanoseconds; a round's messages wait for all of the round before.

    Args:
        program: What ranks do.
        path: Where to.

    Example:
        A rank of two, with an allreduce among its messages::

            rank 0 {
            l1: calc 310000
            l2: send 40b to 1 tag 0
            l2 requires l1
            l3: recv 40b from 1 tag 0
            l3 requires l1
            …
    """

    def fill(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(f"num_ranks {program.ranks}\n")
            rows = program.rows()
            for rank in range(program.ranks):
                file.write(f"\nrank {rank} {{\n")
                _rank(program.rounds(rank, rows[rank].tolist()), program, file)
                file.write("}\n")

    replace(path, fill)
    return path


def _rank(parts: Iterator[Computing | Round], program: Program, file: TextIO) -> None:
    number = 0
    before: list[int] = []

    def line(text: str) -> int:
        nonlocal number
        number += 1
        file.write(f"l{number}: {text}\n")
        for label in before:
            file.write(f"l{number} requires l{label}\n")
        return number

    for part in parts:
        if isinstance(part, Computing):
            before = [line(f"calc {round(part.seconds * 1e9)}")]
            continue
        labels = [line(f"send {whole(n)}b to {to} tag 0") for to, n in part.sends]
        labels += [line(f"recv {whole(n)}b from {source} tag 0") for source, n in part.receives]
        before = labels or before
        adding = round(program.rules.machine.combining(part.added) * 1e9)
        if adding:
            before = [line(f"calc {adding}")]


@dataclass
class Goal:
    """What a rank does, as a file says.

    Args:
        calc: Label to nanoseconds.
        sends: Label to rank, bytes and tag.
        receives: The same.
        needs: Label to the labels that must be done before it begins.
    """

    calc: dict[str, int] = field(default_factory=dict)
    sends: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    receives: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)


def read_goal(path: Path) -> list[Goal]:
    """The ranks of a file that `write_goal` wrote.

    Raises:
        InvalidArgument: A line that it would not write.
    """
    ranks: list[Goal] = []
    announced = 0
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if text.startswith("num_ranks "):
            announced = int(text.split()[1])
        elif text.startswith("rank "):
            ranks.append(Goal())
        elif match := _LINE.fullmatch(text):
            label, calc, way, size, peer, tag = match.groups()
            if calc is not None:
                ranks[-1].calc[label] = int(calc)
            else:
                into = ranks[-1].sends if way == "send" else ranks[-1].receives
                into[label] = int(peer), int(size), int(tag)
        elif match := _NEEDS.fullmatch(text):
            ranks[-1].needs.setdefault(match[1], []).append(match[2])
        elif text not in ("", "}"):
            raise InvalidArgument(f"{path}, line {number}: {text!r}", "num_ranks, rank, calc, send, recv or requires")
    if len(ranks) != announced:
        raise InvalidArgument(f"{path}: {len(ranks)} ranks", f"{announced}, as it says itself")
    return ranks
