"""What verbs share that read folders of records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from deep_bench.results import Results


class Labelled(click.ParamType[tuple[str, str]]):
    """A label and a value: ``system=torch``, ``option.threads=1``."""

    name = "label=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Read a pair."""
        if isinstance(value, tuple):
            return value
        name, equals, requested = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r}: write a label and a value, such as system=torch", param, ctx)
        return name, requested


WHERE = click.option(
    "--where",
    multiple=True,
    type=Labelled(),
    metavar="LABEL=VALUE",
    help="Only results with it; * stands for any characters. Repeat for several labels, or for several values of one.",
)


def gathered(paths: Sequence[Path], where: Sequence[tuple[str, str]]) -> Results:
    """Read records, with a bar on a terminal, and choose among them.

    Args:
        paths: Files and folders.
        where: Labels and values; several values of one label: any of them.
    """
    from deep_bench.measure.progress import Bars
    from deep_bench.results import gather

    bars = Bars(delay=1.0)

    def progress(done: int, total: int) -> None:
        if done == 1:
            bars.phase("reading records", total, "files")
        bars.advance()

    try:
        results = gather(*paths, progress=progress)
    finally:
        bars.close()
    filters: dict[str, list[str]] = {}
    for name, value in where:
        filters.setdefault(name, []).append(value)
    return results.where(**filters)
