"""The main job: check and time a network in several frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from deep_bench import frameworks
from deep_bench.errors import NotKept
from deep_bench.graph import Network
from deep_bench.measure.folder import output_folder
from deep_bench.measure.progress import Bars
from deep_bench.network.experiment import Experiment
from deep_bench.network.problem import make_problem
from deep_bench.network.result import Result
from deep_bench.network.settings import Checking, Settings
from deep_bench.variant import Variant


def run(
    network: str | Path | Network,
    on: Sequence[str | Variant] | str | None = None,
    *,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    sizes: Mapping[str, int] | None = None,
    batch: int | None = None,
    seed: int = 0,
    ci_width: float = 0.01,
    budget: float = 20.0,
    check: Checking = "auto",
    launches: int = 1,
    twin: bool = True,
    in_process: bool = False,
    output: str | Path | None = None,
    progress: bool = True,
) -> Result:
    """Run a network in several frameworks: is each right, how precise is it, how long does it take?

    Each system lives in a process of its own, which is stopped while others are timed. All are measured in random order,
    block by block.

    Args:
        network: A network, an ``.onnx`` file, or the name of a network that ships.
        on: Frameworks with options (``"torch:threads=1"``), or a single one; by default all that are installed.
        inputs: An ``.npz`` file or arrays by name; by default they are drawn by a seeded generator.
        sizes: Open dimension to size; others are taken from the inputs, or chosen and said.
        batch: Size of the open first dimensions.
        seed: Of drawn inputs, of the random order and of the estimates.
        ci_width: Stop when half the 95 % interval of each median is at most this share of it …
        budget: … or after so many seconds of measuring.
        check: How hard to look whether results are right: ``auto``, ``quick``, ``full`` or ``off``.
        launches: How many times to start every system afresh.
        twin: Whether one system is measured twice, as an A/A pair.
        in_process: Time everything in this process, for a debugger.
        output: A folder for the record and the frameworks' logs.
        progress: Show progress bars, if standard error is a terminal.

    Returns:
        What was found. Ctrl-C ends the run early; the result then holds what was measured.

    Raises:
        InvalidNetwork: The network cannot be used.
        InvalidInput: The inputs do not fit it.
        InvalidArgument: An option is out of range.
        UnknownName: A framework that does not exist.
        FrameworkMissing: A framework that is not installed.
        NotKept: The record could not be written in the end; ``found`` of the error is the result.

    Example:
        >>> result = run("digits-cnn", on=["reference"], budget=0.5, twin=False, progress=False)
        >>> result.ok
        True
    """
    settings = Settings(seed, ci_width, budget, check, launches, twin, in_process)
    left_out = [name for name in frameworks if frameworks.missing(name)] if on is None else []
    chosen = [name for name in frameworks if name not in left_out] if on is None else [on] if isinstance(on, str) else on
    variants = [v if isinstance(v, Variant) else Variant.parse(v) for v in chosen]
    folder = output_folder(output) if output is not None else None
    problem = make_problem(network, inputs=inputs, sizes=sizes, batch=batch, seed=seed)
    experiment = Experiment(problem, variants, settings, folder, Bars(progress))
    if left_out:
        experiment.record.notes.append(f"left out, since they are not installed: {', '.join(left_out)}")
    record = experiment.run()
    if (failure := experiment.unwritten) is not None:
        raise NotKept(failure.came, failure.expected, found=Result(record)) from failure
    return Result(record, experiment.path)
