"""``deep-bench data``."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli.verb import SECONDS, Spelled, Verb, finish, refuse_unless
from deep_bench.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from deep_bench.measure.session import SessionProgress
    from deep_bench.training.containers.measurement import Latencies, ReadingMeasurement, ReadingSubject
    from deep_bench.training.dataset import Dataset


def _height_and_width(text: str) -> tuple[int, int]:
    height, _, width = text.partition("x")
    refuse_unless(height.isdecimal() and width.isdecimal() and int(height) and int(width))
    return int(height), int(width)


_PIXELS = Spelled("heightxwidth", _height_and_width, ": write a height and a width in pixels, such as 32x32")


@dataclass
class _SetFacts:
    """What is known of one set.

    Args:
        name: As it was asked for.
        facts: Plain data: samples, specs, classes, containers.
        subjects: What can be measured of it.
        refused: Containers that cannot hold it, with the reason.
    """

    name: str
    facts: dict[str, Any]
    subjects: list[ReadingSubject] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


_CONTAINER_HELP = (
    "Keep it so: cifar, folder, hdf5, idx, memory, npy, recordio, tar, tfrecord or webdataset. Repeat for more."
)


@click.command("data", cls=Verb)
@click.argument("names", nargs=-1, required=True, metavar="NAME|PATH…")
@click.option("--root", type=click.Path(path_type=Path), help="The folder of data sets, for those that have files.")
@click.option("--container", "containers", multiple=True, metavar="KIND[:OPTION=VALUE,…]", help=_CONTAINER_HELP)
@click.option("--measure", "measuring", is_flag=True, help="Time batches: in order and at random, from disk and memory.")
@click.option("--batch", type=click.IntRange(min=1), default=64, show_default=True, help="Samples in a batch.")
@click.option("--budget", type=SECONDS, help="Time for measuring all. Default: 10s for each container.")
@click.option("--ci-width", type=float, default=0.02, show_default=True, help="Half-width of the interval over the median.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random order.")
@click.option("--verify", is_flag=True, help="Compare the files of containers with their checksums.")
@click.option("--convert", "kind", metavar="KIND[:OPTION=VALUE,…]", help="Write it to a new container: --output.")
@click.option("--output", type=click.Path(path_type=Path), help="What --convert writes.")
@click.option("--resize", "size", type=_PIXELS, help="For --convert and --container: bring images to one size.")
@click.option("--in-process", is_flag=True, help="Start no processes: for a debugger.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def command(
    names: tuple[str, ...],
    root: Path | None,
    containers: tuple[str, ...],
    measuring: bool,
    verify: bool,
    kind: str | None,
    output: Path | None,
    size: tuple[int, int] | None,
    as_json: bool,
    **timing: Any,
) -> None:
    """What data sets hold, and how long batches take from them in one container or another.

    A set is one of those that deep_bench knows (digits, mnist/test …), or the path of a container. The temporary containers
    of --container lie in --root, if it is there, else in the working folder, so that they are on a disk and not in memory.

    Exit status: 0 all was done; 1 a container cannot hold a set, or measuring one failed; 2 bad usage or input; 130
    interrupted (what was measured is printed).
    """
    _check(names, containers, kind, output)
    if size is not None and kind is None and not containers:
        raise click.UsageError("--resize changes what --convert or --container writes: give one of them")
    with ExitStack() as stack:
        summaries = [_set_facts(name, root, containers, size, verify, stack) for name in names]
        written = [_converted(names[0], root, kind, size, output)] if kind is not None and output is not None else []
        measured = _measure([s for summary in summaries for s in summary.subjects], root, timing) if measuring else None
    if as_json:
        click.echo(json.dumps(_as_json(summaries, measured, written), indent=2))
    else:
        from rich.console import Console

        from deep_bench.records.table import columns, print_line

        console = Console(width=columns())
        for summary in summaries:
            for line in _lines(summary):
                print_line(console, line)
        if measured is not None:
            _show_latencies(console, measured.latencies)
        for path in written:
            print_line(console, f"written: {path}")
    failed = measured is not None and any(latency.error for latency in measured.latencies)
    refused = any(summary.refused for summary in summaries)
    finish(ok=not (failed or refused), interrupted=measured is not None and measured.interrupted)


def _check(names: Sequence[str], containers: Sequence[str], kind: str | None, output: Path | None) -> None:
    """Refuse what cannot work before minutes are spent."""
    from deep_bench.training.containers import parse_kind

    for values, option in ((names, "NAME"), (containers, "--container")):
        if twice := [name for name in values if values.count(name) > 1]:
            raise InvalidArgument(f"{option} {twice[0]} comes {values.count(twice[0])} times", "each once")
    for text in (*containers, *([kind] if kind is not None else [])):
        parse_kind(text)
    if (kind is None) != (output is None):
        raise InvalidArgument("--convert and --output", "both, or none of them", "write --convert KIND --output PATH")
    if kind is not None:
        from deep_bench.training.containers.kinds import check_target

        if len(names) > 1:
            raise InvalidArgument(f"--convert of {len(names)} sets", "one set", "convert them one by one")
        if parse_kind(kind)[0] == "memory":
            raise InvalidArgument("--convert memory", "a kind of container that has files")
        check_target(output)  # type: ignore[arg-type]


def _set_facts(
    name: str, root: Path | None, containers: Sequence[str], size: tuple[int, int] | None, verify: bool, stack: ExitStack
) -> _SetFacts:
    """Open a set, describe it, and write it to the containers asked for."""
    from deep_bench.training.containers import Container
    from deep_bench.training.containers.measurement import ReadingSubject
    from deep_bench.training.sets import open_set

    dataset = open_set(name, root)
    with ExitStack() as opened:
        if isinstance(dataset, Container):
            opened.enter_context(dataset)
            if verify:
                dataset.verify()
        elif verify:
            advice = "the files of sets that are known by name are always verified"
            raise InvalidArgument(f"--verify of {name}", "the path of a container", advice)
        summary = _SetFacts(name, _facts(dataset))
        if not containers:
            summary.subjects.append(ReadingSubject(name, name))
        for text in containers:
            _contain(summary, _resized(dataset, size), text, root, stack)
    return summary


def _resized(dataset: Dataset, size: tuple[int, int] | None) -> Dataset:
    from deep_bench.training.sets import Resized

    return dataset if size is None else Resized(dataset, size)


def _contain(summary: _SetFacts, dataset: Dataset, text: str, root: Path | None, stack: ExitStack) -> None:
    """Write a set to a temporary container, or say why that cannot hold it."""
    from deep_bench.training.containers import open_container, parse_kind, write_container
    from deep_bench.training.containers.measurement import ReadingSubject

    kind, options = parse_kind(text)
    label = f"{summary.name} in {text}"
    if kind == "memory":
        summary.subjects.append(ReadingSubject(label, summary.name, memory=True))
        return
    beside = root if root is not None and root.is_dir() and os.access(root, os.W_OK) else Path.cwd()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".deep_bench-", dir=beside)))
    try:
        path = write_container(folder / "container", dataset, kind, **options)
    except Unsupported as error:
        summary.refused[text] = str(error).replace("\n", ". ")
        return
    with open_container(path) as written:
        summary.facts["containers"][text] = {"bytes": written.nbytes}
    summary.subjects.append(ReadingSubject(label, str(path)))


def _facts(dataset: Dataset) -> dict[str, Any]:
    import numpy as np

    from deep_bench.training.containers import Container
    from deep_bench.training.dataset import labels_of

    facts: dict[str, Any] = {"samples": len(dataset), "specs": [str(spec) for spec in dataset.specs], "containers": {}}
    if isinstance(dataset, Container):
        facts |= {"kind": dataset.kind, "bytes": dataset.nbytes}
    try:
        labels = labels_of(dataset)
    except Unsupported:
        return facts
    names = getattr(dataset, "classes", None) or ()
    numbers, counts = np.unique(labels, return_counts=True)
    facts["classes"] = {
        names[number] if 0 <= number < len(names) else str(number): count
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
    }
    return facts


def _converted(name: str, root: Path | None, kind: str, size: tuple[int, int] | None, output: Path) -> Path:
    from deep_bench.training.containers import Container, convert, parse_kind
    from deep_bench.training.sets import open_set

    chosen, options = parse_kind(kind)
    dataset = open_set(name, root)
    try:
        return convert(_resized(dataset, size), output, chosen, **options)
    finally:
        if isinstance(dataset, Container):
            dataset.close()


def _measure(subjects: Sequence[ReadingSubject], root: Path | None, timing: dict[str, Any]) -> ReadingMeasurement | None:
    from deep_bench.measure.progress import Bars
    from deep_bench.training.containers.measurement import measure_reading

    if not subjects:
        return None
    bars = Bars()
    begun = False

    def watch(progress: SessionProgress) -> None:
        nonlocal begun
        if not begun:
            bars.phase("measuring", progress.budget_s, "s")
            begun = True
        bars.measured(progress)

    budget = timing.pop("budget")
    try:
        return measure_reading(subjects, root=root, budget_s=budget, watch=watch, **timing)
    finally:
        bars.close()


def _as_json(summaries: Sequence[_SetFacts], measured: ReadingMeasurement | None, written: Sequence[Path]) -> dict[str, Any]:
    sets = [{"name": summary.name, **summary.facts, "refused": summary.refused} for summary in summaries]
    latencies = [] if measured is None else [latency.as_json() for latency in measured.latencies]
    return {"sets": sets, "latencies": latencies, "written": [str(path) for path in written]}


def _lines(summary: _SetFacts) -> list[str]:
    from deep_bench.measure.units import in_bytes

    facts = summary.facts
    size = f", {facts['kind']}, {in_bytes(facts['bytes'])}" if "kind" in facts else ""
    lines = [f"{summary.name}: {facts['samples']} samples{size}", *(f"  {spec}" for spec in facts["specs"])]
    if counts := facts.get("classes"):
        least, most = min(counts, key=counts.get), max(counts, key=counts.get)
        lines.append(f"  {len(counts)} classes, from {counts[least]} samples ({least}) to {counts[most]} ({most})")
        if len(counts) <= 20:
            lines.append("  " + ", ".join(f"{name}: {count}" for name, count in counts.items()))
    lines += [f"  in {text}: {in_bytes(figures['bytes'])}" for text, figures in facts["containers"].items()]
    return lines + [f"  in {text}: refused: {reason}" for text, reason in summary.refused.items()]


def _show_latencies(console: Any, latencies: Sequence[Latencies]) -> None:
    from rich.table import Table
    from rich.text import Text

    from deep_bench.measure.units import duration, duration_range, significant
    from deep_bench.records.table import print_line, print_table

    table = Table("set", "read", title="batches: medians")
    for name in ("batch", "latency", "95 % interval", "samples/s"):
        table.add_column(name, justify="right")
    for latency in latencies:
        for call, f in latency.calls.items():
            shown = "too few" if f.low_ns is None or f.high_ns is None else duration_range(f.low_ns / 1e9, f.high_ns / 1e9)
            figures = (str(latency.batch), duration(f.median_ns / 1e9), shown, significant(f.samples_per_s))
            table.add_row(Text(latency.label), Text(call), *figures)
    print_table(console, table)
    for latency in latencies:
        if latency.error:
            print_line(console, f"{latency.label} failed: {latency.error}")
        elif latency.not_cold:
            print_line(console, f"{latency.label}: not read from the disk: {latency.not_cold}")
