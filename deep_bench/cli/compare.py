"""``deep-bench compare``."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli.verb import SHARE, PictureToWrite, Verb
from deep_bench.errors import InvalidArgument, InvalidRecord

if TYPE_CHECKING:
    from deep_bench.results import Results


@click.command("compare", cls=Verb)
@click.argument("records", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--base",
    metavar="VALUE",
    help="Within one record: the system that others are compared with; a framework's name, if only one is of it.",
)
@click.option("--factor", metavar="LABEL", help="What tells the sides apart; found if it is not said. With --base: system.")
@click.option(
    "--across", metavar="LABEL", multiple=True, help="What may differ as well: a label, a fact, or a group of facts."
)
@click.option("--metric", "metrics", metavar="NAME", multiple=True, help="Only this figure (repeat for more).")
@click.option("--margin", type=SHARE, default=0.02, show_default="2%", help="A difference that counts as none.")
@click.option("--correction", type=click.Choice(["holm", "bh", "none"]), default="holm", show_default=True,
              help="How many comparisons are taken into account: Holm, Benjamini-Hochberg, or not at all.")  # fmt: skip
@click.option("--fail-on", "conditions", metavar="CONDITION", multiple=True,
              help="Exit with 1 if: slower, slower:5%, worse, worse:5%, wrong, cannot-tell, unpaired.")  # fmt: skip
@click.option("--plot", "picture", type=PictureToWrite(), help="Write a forest plot of all ratios.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def command(
    records: tuple[Path, ...],
    base: str | None,
    factor: str | None,
    across: tuple[str, ...],
    metrics: tuple[str, ...],
    margin: float,
    correction: str,
    conditions: tuple[str, ...],
    picture: Path | None,
    as_json: bool,
) -> None:
    """Compare two records, or two folders of records: what is faster, slower, equivalent, or wrong now?

    RECORDS is what was before and what is now; or, with --base, a single one whose systems are compared with each other.
    What differs in more than one factor is refused, unless --factor and --across say so: labels (deep-bench ls shows them),
    facts such as commit, governor, torch or OMP_NUM_THREADS, or the groups machine, clock, threads and versions.

    --fail-on slower:5% means: slower, all comparisons considered, and even the better end of the interval is beyond 5 %.
    With it, sides that differ in the machine, the network or an option are refused, unless --factor names it: only the time,
    the commit, and versions of what is measured may differ unasked.

    Between records of one launch each nothing under 10 % is called, so slower:5% cannot be judged: measure in 4 launches or
    more, or ask for slower:10%. Nor can a condition be judged where nothing, or not all that it is about, was tested, or
    where both sides are the same record. Copies of a record count once.

    Exit status: 0, 1 if a condition of --fail-on holds, 2 for what cannot be compared or a condition that cannot be judged.
    """
    from deep_bench.results.comparing import Condition, compare, compare_within, failures, unjudged

    requirements = [Condition.parse(text) for text in conditions]
    sides = _sides(records, base)
    options: dict[str, Any] = {"margin": margin, "correction": correction, "allow": across, "metrics": metrics}
    if base is not None:
        comparison = compare_within(sides[0], base, factor=factor or "system", **options)
    else:
        comparison = compare(*sides, factor=factor, **options)
    reasons, undecided = failures(comparison, requirements), unjudged(comparison, requirements)
    if picture is not None:
        comparison.plot(picture)
    if as_json:
        click.echo(json.dumps({**comparison.as_json(), "failures": reasons, "unjudged": undecided}, indent=2))
    else:
        click.echo(comparison.table())
        for reason in reasons:
            click.echo(f"fails on {reason}")
    for line in undecided:
        click.echo(line, err=True)
    sys.exit(1 if reasons else 2 if undecided else 0)


def _sides(records: tuple[Path, ...], base: str | None) -> list[Results]:
    """The results of each path; what cannot be read is told, and refused where it was named."""
    from deep_bench.results import gather

    required = 1 if base is not None else 2
    if len(records) > required:
        came = f"{len(records)} paths {'with' if base is not None else 'without'} --base"
        raise InvalidArgument(came, "two records or folders; or one, and --base SYSTEM")
    sides = [gather(path) for path in records]
    if len(records) < required:
        raise InvalidArgument(*_one_side(records[0], sides[0]))
    for path, side in zip(records, sides, strict=True):
        for refused in side.refused:
            click.echo(f"left out: {refused}", err=True)
        if not side:
            raise InvalidRecord(f"no results in {path}", "a record, or a folder of records")
    return sides


def _one_side(path: Path, side: Results) -> tuple[str, str, str]:
    """What came, what was expected, and what to do where there is nothing to compare a path with."""
    systems = dict.fromkeys(result.labels["system"] for result in side if "system" in result.labels)
    count = len(side.files())
    came = f"only {path}, with {count} record{'s' * (count != 1)}, and no --base"
    advice = f"name a second path, or a system: --base {shlex.quote(next(iter(systems)))}" if len(systems) > 1 else ""
    return came, "two records or folders; or one, and --base SYSTEM", advice or "name a second path"
