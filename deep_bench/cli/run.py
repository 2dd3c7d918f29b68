"""``deep-bench run``."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli import INTERRUPTED

if TYPE_CHECKING:
    from deep_bench.graph import Network

_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0}


class Seconds(click.ParamType[float]):
    """A duration: ``20``, ``20s``, ``2m``, ``500ms``."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a number with a unit."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-z]*)\s*", str(value))
        if found is None or found[2] not in _UNITS:
            self.fail(f"{value!r} is no duration: write 20s, 500ms or 2m", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


class Size(click.ParamType[tuple[str, int]]):
    """A dimension and its size: ``seq=128``."""

    name = "dimension=size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Read a pair."""
        if isinstance(value, tuple):
            return value
        name, _, size = str(value).rpartition("=")
        if not name or not size.isdecimal():
            self.fail(f"{value!r}: write a dimension and its size, such as seq=128", param, ctx)
        return name, int(size)


class Sweep(click.ParamType[tuple[str, tuple[int, ...]]]):
    """A dimension and several sizes: ``batch=1,8,64``."""

    name = "dimension=size,size,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, tuple[int, ...]]:
        """Read a name and a list."""
        if isinstance(value, tuple):
            return value
        name, _, sizes = str(value).rpartition("=")
        parts = sizes.split(",")
        if not name or not all(p.isdecimal() for p in parts):
            self.fail(f"{value!r}: write a dimension and its sizes, such as batch=1,8,64", param, ctx)
        return name, tuple(map(int, parts))


@click.command("run")
@click.argument("network")
@click.option("--on", "on", multiple=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="Repeat to compare. Default: all.")
@click.option("--input", "inputs", type=click.Path(path_type=Path), help="An .npz file with one array per input.")
@click.option("--batch", type=click.IntRange(min=0), help="Size of the open first dimensions.")
@click.option("--size", "sizes", type=Size(), multiple=True, help="Size of an open dimension.")
@click.option("--sweep", type=Sweep(), help="Run once for each size: a latency-throughput curve.")
@click.option("--transform", "steps", multiple=True, metavar="NAME[:OPTIONS]", help="First transform it, as the verb does.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--ci-width", type=float, default=0.01, show_default=True, help="Half-width of the interval over the median.")
@click.option("--budget", type=Seconds(), default="20s", show_default=True, help="Time for measuring.")
@click.option("--check", type=click.Choice(["auto", "quick", "full", "off"]), default="auto", show_default=True)
@click.option("--launches", type=click.IntRange(min=1), default=1, show_default=True, help="Fresh processes, so many times.")
@click.option("--no-twin", is_flag=True, help="Leave the A/A pair out.")
@click.option("--in-process", is_flag=True, help="Start no processes: for a debugger.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(network: str, sweep: tuple[str, tuple[int, ...]] | None, as_json: bool, debug: bool, **options: Any) -> None:
    """Check and time NETWORK, an .onnx file or the name of one that ships (digits-cnn).

    Exit status: 0 nothing was found wrong; 1 a result was wrong or of reduced precision, or a framework failed; 2 bad usage
    or input; 130 interrupted (what was measured is kept).
    """
    wanted = dict(options, on=list(options["on"]) or None, sizes=dict(options["sizes"]), twin=not options["no_twin"])
    del wanted["no_twin"]
    chosen = _transformed(network, wanted.pop("steps"))
    if sweep is not None:
        found = _sweep(chosen, sweep, wanted)
    else:
        from deep_bench.network.run import run

        found = run(chosen, **wanted)
    click.echo(json.dumps(found.as_json(), indent=2) if as_json else found.table())
    if debug and not as_json:
        _print_details(found)
    if found.interrupted:
        click.echo("deep-bench: interrupted", err=True)
        sys.exit(INTERRUPTED)
    sys.exit(0 if found.ok else 1)


def _transformed(network: str, steps: Sequence[str]) -> str | Network:
    """The network, after the transformations that were asked for."""
    if not steps:
        return network
    from deep_bench.graph import load
    from deep_bench.network.transform.steps import Step, transformed

    return transformed(load(network), [Step.parse(text) for text in steps])


def _sweep(network: str | Network, sweep: tuple[str, tuple[int, ...]], wanted: dict[str, Any]) -> Any:
    from deep_bench.network.sweep import run_sweep

    return run_sweep(network, *sweep, **wanted)


def _print_details(found: Any) -> None:
    for system in found.failures:
        click.echo(f"{system.label}:\n{system.record.error.details}", err=True)
