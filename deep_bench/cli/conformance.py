"""``deep-bench conformance``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from deep_bench.cli.verb import FileToWrite, Verb, check_systems, finish

_STANDARD = ("node", "simple", "pytorch-converted", "pytorch-operator")


@click.command("conformance", cls=Verb)
@click.option(
    "--on", "systems", multiple=True, required=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="Repeat for several."
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice((*_STANDARD, "generated")),
    help="Repeat for several. Default: all of the standard's.",
)
@click.option(
    "--frozen", is_flag=True, help="Turn every input but the first into an initializer, as real networks have them."
)
@click.option("--gradients", is_flag=True, help="Check gradients instead of outputs. Default kind: node.")
@click.option("--operator", "operators", multiple=True, help="Only cases that contain this operator.")
@click.option("--case", "cases", multiple=True, help="Only this case.")
@click.option("--every-operator", is_flag=True, help="List also the operators whose cases all passed natively.")
@click.option(
    "--limit", type=click.IntRange(1, 86_400), default=60, show_default=True, help="The most seconds a case may take."
)
@click.option("--json", "file", type=FileToWrite(), help="Write everything to this file.")
def command(systems: tuple[str, ...], every_operator: bool, file: Path | None, **options: Any) -> None:
    """Run the ONNX standard's own test cases on a framework.

    --kind generated runs deep_bench's own instead, which compare the framework with the reference on drawn uses of each
    operator: every element type, axes of 0 and 1, extreme values, NaN.

    Each case is compared by its own tolerances, and counts as passed, silently wrong (an answer, and not the right one),
    refused (when the network was prepared, with the reason), failed (an error later, or a crash, which costs that case only)
    or skipped (random draws, whose distribution is tested apart).

    --gradients asks for the gradient of a random weighting of each case's outputs, and compares it with differences of the
    reference in float64: right, kink (right, and at some element any of several slopes, or none, is), refused, wrong or
    failed.

    Exit status: 0 nothing wrong or failed but known failures; 1 something was, or a known failure passed; 2 bad usage; 130
    interrupted (what was found is kept).
    """
    check_systems(systems)
    if options["gradients"] and options["frozen"]:
        raise click.UsageError("--gradients is about inputs, and --frozen leaves one: give one of the two")
    reports: list[Any] = []

    def keep(part: Any) -> None:
        if file is not None:
            _write(file, [f.as_json() for f in (*reports, part)], several=len(systems) > 1)

    for system in systems:
        reports.append(_run(system, keep=keep, **options))
        if file is not None:
            _write(file, [f.as_json() for f in reports], several=len(systems) > 1)
        click.echo(_text(reports[-1], gradients=options["gradients"], every_operator=every_operator))
        if reports[-1].interrupted:
            break
    finish(ok=all(f.ok for f in reports), interrupted=reports[-1].interrupted)


def _write(file: Path, reports: list[dict[str, Any]], *, several: bool) -> None:
    """Write it whole or not at all: one object, or a list of them if several systems were asked for."""
    from deep_bench.records.store import replace

    content = json.dumps(reports if several else reports[0], indent=1)
    replace(file, lambda temporary: temporary.write_text(content, encoding="utf-8"))


def _text(report: Any, *, gradients: bool, every_operator: bool) -> str:
    from deep_bench.testing.report import as_text, gradients_as_text

    return (gradients_as_text if gradients else as_text)(report, every_operator=every_operator)


def _run(
    system: str,
    *,
    kinds: tuple[str, ...],
    frozen: bool,
    gradients: bool,
    operators: tuple[str, ...],
    cases: tuple[str, ...],
    limit: int,
    keep: Callable[[Any], None],
) -> Any:
    from deep_bench.testing.case import Case
    from deep_bench.testing.conformance import check_cases, chosen_cases, run_conformance, run_gradients

    kinds = kinds or (("node",) if gradients else _STANDARD)
    check_cases(chosen_cases(system, kinds, None, limit), operators, cases)

    def is_selected(case: Case) -> bool:
        return (not operators or bool({*operators} & {*case.operators})) and (not cases or case.name in cases)

    with tqdm(desc=system, unit="case", disable=None, leave=False) as bar:

        def show(done: int, total: int, name: str) -> None:
            bar.total, bar.n = total, done
            bar.set_postfix_str(name, refresh=False)
            bar.update(0)

        if gradients:
            return run_gradients(system, kinds=kinds, only=is_selected, limit_s=limit, progress=show, keep=keep)
        return run_conformance(system, kinds=kinds, frozen=frozen, only=is_selected, limit_s=limit, progress=show, keep=keep)
