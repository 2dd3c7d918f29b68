"""The folder of a submission of training, as MLPerf's submission rules lay it out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deep_bench
from deep_bench.errors import InvalidArgument
from deep_bench.measure.folder import output_folder
from deep_bench.measure.storage import written
from deep_bench.mlperf.training.submission import checked_name
from deep_bench.training.recipes import Recipe

IMPLEMENTATION = "deep_bench"


@dataclass(frozen=True)
class Layout:
    """Where things of a benchmark on a system are in a submission's folder.

    Args:
        root: The folder of the organization.
        system: The name of the system's description.
        benchmark: The benchmark.

    Raises:
        InvalidArgument: A name that no path may have.

    Example:
        >>> Layout(Path("lab"), "box", "digits").log(0).as_posix()
        'lab/results/box/digits/result_0.txt'
    """

    root: Path
    system: str
    benchmark: str

    def __post_init__(self) -> None:
        checked_name(self.system, "system")
        checked_name(self.benchmark)

    @property
    def results(self) -> Path:
        """The folder of the logs."""
        return self.root / "results" / self.system / self.benchmark

    def log(self, number: int) -> Path:
        """The log of a run."""
        return self.results / f"result_{number}.txt"

    @property
    def description(self) -> Path:
        """The description of the system."""
        return self.root / "systems" / f"{self.system}.json"

    @property
    def records(self) -> Path:
        """The folder of deep_bench's own records of the runs; no part of what the rules ask for."""
        return self.root / "records"

    @property
    def code(self) -> Path:
        """The folder of what was run."""
        return self.root / "benchmarks" / self.benchmark / "implementations" / IMPLEMENTATION

    @property
    def of_system(self) -> Path:
        """The folder of how it was run on this system."""
        return self.root / "benchmarks" / self.benchmark / self.system


def prepare(layout: Layout, runs: int) -> None:
    """Make the folder of the logs, and see that none of the runs is there already.

    Raises:
        InvalidArgument: One is, or the folder cannot be made.
    """
    output_folder(layout.results)
    for number in range(runs):
        if layout.log(number).exists():
            raise InvalidArgument(
                f"{layout.log(number)} is there already",
                "a folder without these runs",
                "name another, or move it away",
            )


def write_around(
    layout: Layout,
    recipe: Recipe,
    framework: str,
    seeds: Sequence[int],
    description: Mapping[str, str],
    note: str,
    hyperparameters: Mapping[str, Any],
) -> None:
    """Write what the rules want beside the logs: the system's description, what was run, and how to run it again.

    Args:
        layout: Where.
        recipe: What was run,
        framework: on this,
        seeds: with these seeds.
        description: Of the system.
        note: How it deviates from MLPerf's benchmarks.
        hyperparameters: What was stated of them.

    Raises:
        InvalidArgument: A file cannot be written.
    """
    texts = {
        layout.description: json.dumps(dict(description), indent=2) + "\n",
        layout.code / "recipe.yaml": recipe.to_yaml(),
        layout.code / "README.md": f"# {layout.benchmark}\n\n{note}\n\n`recipe.yaml` is a recipe of deep_bench "
        f"{deep_bench.__version__}: network, data, optimizer, evaluation and target.\n",
        layout.of_system / "README.md": f"# {layout.benchmark} on {layout.system}\n\nSeeds of the runs: "
        f"{', '.join(map(str, seeds))}.\nEach: `SEED=0 OUTPUT=/a/folder ./run_and_time.sh`.\n",
        layout.of_system / f"{layout.system}_{IMPLEMENTATION}.json": json.dumps({"framework": framework}, indent=2) + "\n",
        **_scripts(layout, framework, hyperparameters),
    }
    for path, text in texts.items():
        output_folder(path.parent)
        written(path, lambda temporary, text=text: temporary.write_text(text, encoding="utf-8"))  # type: ignore[misc]
        if path.suffix == ".sh":
            path.chmod(0o755)


def _scripts(layout: Layout, framework: str, hyperparameters: Mapping[str, Any]) -> dict[Path, str]:
    """File to what it does: install, fetch the data, and make one run."""
    recipe = f"../implementations/{IMPLEMENTATION}/recipe.yaml"
    fetch = ["deep-bench", "train", recipe, "--on", "reference", "--steps", "1"]
    run = ["deep-bench", "mlperf", "train", recipe, "--on", framework, "--benchmark", layout.benchmark, "--apart"]
    run += [f"--hyperparameter={name}={value}" for name, value in hyperparameters.items()]
    lines = {
        "setup.sh": f"pip install 'deep-bench[mlperf]=={deep_bench.__version__}'",
        "init_datasets.sh": f'{shlex.join(fetch)} --output "$(mktemp -d)"',
        "run_and_time.sh": f'{shlex.join(run)} --seed "${{SEED:?a number}}" -o "${{OUTPUT:?a folder}}"',
    }
    head = '#!/bin/sh\nset -e\ncd "$(dirname "$0")"\n'
    return {layout.of_system / name: f"{head}{line}\n" for name, line in lines.items()}
