"""``deep-bench transform``."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli import FAILED
from deep_bench.cli.verb import FileToWrite, Verb, check_files
from deep_bench.errors import InvalidArgument

if TYPE_CHECKING:
    from deep_bench.graph import Network
    from deep_bench.network.transform.steps import TransformStep

_STEPS = "deep_bench.transform.steps"


def _note(name: str | None) -> Callable[[click.Context, click.Parameter, Any], None]:
    """A callback that keeps the transformations in the order in which they were written."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> None:  # noqa: ARG001 (click's signature)
        steps = ctx.meta.setdefault(_STEPS, [])
        for entry in value if isinstance(value, tuple) else (value,):
            if entry is True:
                steps.append(name)
            elif entry not in (None, False):
                head, _, tail = str(entry).partition(":") if name == "precision" else (str(entry), "", "")
                steps.append(entry if name is None else f"{name}:{head}{',' if tail else ''}{tail}")

    return callback


def _step(flag: str, name: str | None, **settings: Any) -> Callable[[Any], Any]:
    repeated = not settings.get("is_flag", False)
    return click.option(flag, expose_value=False, callback=_note(name), multiple=repeated, **settings)


@click.command("transform", cls=Verb)
@click.argument("network")
@_step("--extract", "extract", metavar="A,B..C", help="The part between named values.")
@_step("--sizes", "sizes", metavar="NAME=SIZE,…", help="Fix open dimensions.")
@_step("--batch", "batch", metavar="SIZE[,INPUT=AXIS,…]", help="Another batch size.")
@_step("--fold", "fold", is_flag=True, help="Compute what is constant.")
@_step("--fuse-batchnorm", "fuse_batchnorm", is_flag=True, help="Batch normalization into the weights before it.")
@_step("--layout", "layout", metavar="NHWC|NCHW", help="Images at the borders in this layout.")
@_step("--micro-batch", "micro_batch", metavar="memory=SIZE[,on=FRAMEWORK]", help="Convolutions in pieces of their batch.")
@_step("--precision", "precision", metavar="FORMAT[:keep=NODE,…]", help="float16 or bfloat16, with nodes kept as they are.")
@_step("--transform", None, metavar="NAME[:OPTIONS]", help="Any of these, or your own: my_module:function.")
@click.option("--cut", type=click.IntRange(min=1), help="Write so many stages of a pipeline.")
@click.option(
    "--costs", type=click.Choice(["flops", "parameters"]), default="flops", show_default=True, help="Of the stages."
)
@click.option("--output", type=FileToWrite(stem=True), help="The .onnx file to write; with --cut, several: name.1.onnx.")
@click.option("--check", is_flag=True, help="Judge each transformation on drawn inputs.")
@click.option("--effort", type=click.Choice(["quick", "full"]), default="quick", show_default=True, help="Of the check.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@click.pass_context
def command(ctx: click.Context, network: str, **options: Any) -> None:
    """Transform NETWORK, an .onnx file or the name of one that ships, in the order of the options.

    A transformation that changes nothing says so. With --cut, stages of an earlier cut into more are refused.

    Exit status: 0 all right; 1 a check did not find a transformation right; 2 bad usage or input.
    """
    from deep_bench.graph import load
    from deep_bench.network.transform.steps import TransformStep

    steps = [TransformStep.parse(text) for text in ctx.meta.get(_STEPS, [])]
    output = options["output"]
    if not (steps or options["cut"]) or not (output or options["check"]):
        raise InvalidArgument("nothing to do", "transformations, such as --fold, and --output or --check")
    if options["cut"] and not output:
        raise InvalidArgument("--cut without --output", "a file name for the stages: --output stages.onnx")
    if output and options["cut"]:
        # see that all stages can be written, and that none of an earlier, longer pipeline would stay beside them
        count = options["cut"]
        check_files([_stage(output, k) for k in range(1, count + 1)], "--output")
        stale = _stage(output, count + 1)
        if stale.exists():
            raise InvalidArgument(
                f"{stale} is there, a stage of an earlier cut into more than {count}",
                advice="remove it, or name another --output",
            )
    elif output:
        check_files([output, output.with_name(f"{output.name}.data")], "--output")
    changed, rows = _apply(load(network), steps, options)
    written = _write(changed, output, options) if output else []
    if options["as_json"]:
        click.echo(json.dumps({"steps": rows, "written": written}, indent=2))
    else:
        click.echo("\n".join([*map(_line, rows), *(f"written: {path}" for path in written)]))
    sys.exit(0 if all(row.get("verdict", "right") == "right" for row in rows) else FAILED)


def _apply(network: Network, steps: list[TransformStep], options: dict[str, Any]) -> tuple[Network, list[dict[str, Any]]]:
    rows = [{"step": network.name, **_facts(network)}]
    for step in steps:
        applied = step.apply(network, verify=not options["check"])
        row: dict[str, Any] = {"step": str(step), **_facts(applied.network), "unchanged": applied.unchanged}
        if options["check"]:
            verdict = applied.check(effort=options["effort"], seed=options["seed"])
            bits = None if math.isnan(verdict.bits) else verdict.bits
            row |= {"verdict": verdict.word, "reason": verdict.reason, "bits": bits, "identical": verdict.identical}
        rows.append(row)
        network = applied.network
    return network, rows


def _facts(network: Network) -> dict[str, Any]:
    return {"nodes": len(network.nodes), "constants_bytes": sum(a.nbytes for a in network.initializers.values())}


def _line(row: dict[str, Any]) -> str:
    unchanged = f"; {row['unchanged']}" if row.get("unchanged") else ""
    verdict = f": {row['verdict']}, {row['reason']}" if "verdict" in row else ""
    if row.get("bits") is not None:
        verdict += f" ({row['bits']:.1f} bits)"
    return f"{row['step']}  {row['nodes']} nodes, {row['constants_bytes']:,} bytes of constants{unchanged}{verdict}"


def _write(network: Network, output: Path, options: dict[str, Any]) -> list[str]:
    from deep_bench.network.transform import cuts

    if not options["cut"]:
        return [str(network.save(output))]
    stages = cuts(network, options["cut"], options["costs"])
    return [str(s.save(_stage(output, k))) for k, s in enumerate(stages, 1)]


def _stage(output: Path, number: int) -> Path:
    return output.with_suffix(f".{number}{output.suffix}")
