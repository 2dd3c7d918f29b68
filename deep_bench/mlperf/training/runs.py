"""Runs of a recipe with MLPerf's logs, in the folder of a submission, as MLPerf's submission rules lay it out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import deep_bench
from deep_bench import frameworks
from deep_bench.errors import DeepBenchError, InvalidArgument, NotKept
from deep_bench.events import Callback
from deep_bench.mlperf.system import checked, describe
from deep_bench.mlperf.training.callback import Cleared, MlperfLog, clear_caches
from deep_bench.mlperf.training.hyperparameters import (
    check_needed,
    check_stated,
    check_untold,
    hyperparameters,
    rule_of,
    told_by_recipe,
)
from deep_bench.mlperf.training.logs import Submission, checked_name, close_unfinished, error_line, official_benchmarks, slug
from deep_bench.network.adapter_process import as_adapter
from deep_bench.records.folders import output_folder
from deep_bench.records.store import written
from deep_bench.training.recipes import Recipe
from deep_bench.training.record import RunRecord
from deep_bench.training.results import Runs
from deep_bench.training.runs import several
from deep_bench.training.trainer import Trainer
from deep_bench.training.workload import train
from deep_bench.variant import Variant

IMPLEMENTATION = "deep_bench"
_SCRIPT_HEAD = '#!/bin/sh\nset -e\ncd "$(dirname "$0")"\n'


@dataclass(frozen=True)
class SubmissionLayout:
    """Where things of a benchmark on a system are in a submission's folder.

    Args:
        root: The folder of the organization.
        system: The name of the system's description.
        benchmark: The benchmark.

    Raises:
        InvalidArgument: A name that no path may have.

    Example:
        >>> SubmissionLayout(Path("lab"), "box", "digits").log(0).as_posix()
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


def write_around(
    layout: SubmissionLayout,
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
    path_of_recipe = f"../implementations/{IMPLEMENTATION}/recipe.yaml"
    fetch = ["deep-bench", "train", path_of_recipe, "--on", "reference", "--steps", "1"]
    run = ["deep-bench", "mlperf", "train", path_of_recipe, "--on", framework, "--benchmark", layout.benchmark, "--apart"]
    run += [f"--hyperparameter={name}={value}" for name, value in hyperparameters.items()]
    lines = {
        "setup.sh": f"pip install 'deep-bench[mlperf]=={deep_bench.__version__}'",
        "init_datasets.sh": f'{shlex.join(fetch)} --output "$(mktemp -d)"',
        "run_and_time.sh": f'{shlex.join(run)} --seed "${{SEED:?a number}}" -o "${{OUTPUT:?a folder}}"',
    }
    texts = {
        layout.description: json.dumps(dict(description), indent=2) + "\n",
        layout.code / "recipe.yaml": recipe.to_yaml(),
        layout.code / "README.md": f"# {layout.benchmark}\n\n{note}\n\n`recipe.yaml` is a recipe of deep_bench "
        f"{deep_bench.__version__}: network, data, optimizer, evaluation and target.\n",
        layout.of_system / "README.md": f"# {layout.benchmark} on {layout.system}\n\nSeeds of the runs: "
        f"{', '.join(map(str, seeds))}.\nEach: `SEED=0 OUTPUT=/a/folder ./run_and_time.sh`.\n",
        layout.of_system / f"{layout.system}_{IMPLEMENTATION}.json": json.dumps({"framework": framework}, indent=2) + "\n",
        **{layout.of_system / name: f"{_SCRIPT_HEAD}{line}\n" for name, line in lines.items()},
    }
    for path, text in texts.items():
        output_folder(path.parent)
        written(path, lambda temporary, text=text: temporary.write_text(text, encoding="utf-8"))  # type: ignore[misc]
        if path.suffix == ".sh":
            path.chmod(0o755)


MakeTrainer: TypeAlias = Callable[[Recipe, str, int, Sequence[Callback]], Trainer[Any]]
"""From a recipe, a framework, a seed and callbacks to a trainer."""


CONFIG = "recipe.yaml"

_KILLED = "its process ended before it did"


@dataclass(frozen=True)
class Timed:
    """Runs that are to be made, each with a log; see `planned`.

    Args:
        recipe: What is trained.
        framework: On what.
        layout: Where everything goes.
        facts: What the system's description states.
        seeds: One for each run.
        clear: Clears caches before each run.
        make: Makes the trainers; for ranks.
        logs: Whether this process writes; of several ranks the first does.
        hyperparameters: What recipe and framework do not tell; see `deep_bench.mlperf.training.hyperparameters`.
    """

    recipe: Recipe
    framework: str
    layout: SubmissionLayout
    facts: Mapping[str, str]
    seeds: tuple[int, ...]
    clear: Callable[[], Cleared] = clear_caches
    make: MakeTrainer | None = None
    logs: bool = True
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """How it deviates from MLPerf's benchmarks."""
        origin = f"recipe {self.recipe.name} of deep_bench {deep_bench.__version__}"
        if self.layout.benchmark in official_benchmarks():
            return f"{origin}; what differs from the reference is in the code"
        return (
            f"no benchmark of MLPerf: {origin}, its own network, data, quality measure and target; "
            "the result is not comparable with MLPerf's"
        )

    def run(self, *, apart: bool = False, seconds: float | None = None, progress: bool = True) -> Runs:
        """Make the runs, and write what belongs to them.

        Args:
            apart: A fresh process for each.
            seconds: The most time of each, from when its data are first touched.
            progress: Whether to show a bar on a terminal.

        Raises:
            InvalidArgument: The first run cannot be made, or a log cannot be written.
            NotKept: The record cannot be written; the logs are there.
        """
        failed: BaseException | None = None
        try:
            runs = several(
                self._trainer,
                self.seeds,
                target=next(iter(self.recipe.fields.target.items())),
                epochs=self.recipe.fields.epochs,
                seconds=seconds,
                apart=apart,
                label=self.framework,
                output=self.layout.records if self.logs else None,
                progress=progress,
                ended=self._close,
            )
        except NotKept as error:
            failed = error
            logs = f"free some space, or name another folder; the logs of the runs are in {self.layout.results}"
            raise NotKept(error.came, error.expected, logs, error.found) from error
        except BaseException as error:
            failed = error
            raise
        finally:
            self._close_all(failed)
        if self.logs:
            facts = next((run.framework for run in runs.runs if run.framework), {})
            ranks = next((run.ranks.ranks for run in runs.runs if run.ranks is not None), [])
            version = f"{self.framework} {facts.get('version', '')}".strip()
            measured = {
                "framework": f"{version}, through deep_bench {deep_bench.__version__}",
                "number_of_nodes": len({str(rank.local.get("host")) for rank in ranks}) or 1,
            }
            description = describe(runs.record.environment, {**measured, **self.facts}, "training")
            write_around(self.layout, self.recipe, self.framework, self.seeds, description, self.note, self.hyperparameters)
        return runs

    def _close(self, run: RunRecord) -> None:
        """End the log of a run whose process was killed, before the next one begins."""
        if self.logs:
            with suppress(InvalidArgument):  # it is tried again when all runs have ended, and told then
                reason = run.error.message.partition("\n")[0] if run.error is not None else _KILLED
                close_unfinished(self.layout.log(self.seeds.index(run.seed)), reason)

    def _close_all(self, failed: BaseException | None) -> None:
        """End the logs that have no end by now; that this fails does not hide why all ended."""
        for number in range(len(self.seeds) if self.logs else 0):
            try:
                close_unfinished(self.layout.log(number), _KILLED if failed is None else error_line(failed))
            except DeepBenchError as error:
                if failed is None:
                    raise
                failed.add_note(str(error))

    def _trainer(self, seed: int, callbacks: Sequence[Callback]) -> Trainer[Any]:
        """A trainer as `several` asks for it; before its data are touched, the clock of its log starts."""
        if not self.logs and self.make is not None:
            trainer = self.make(self.recipe, self.framework, seed, callbacks)
            hyperparameters(trainer, self.hyperparameters)
            return trainer
        log = MlperfLog(
            self.layout.log(self.seeds.index(seed)),
            Submission.of(self.layout.benchmark, self.facts, self.note),
            config=CONFIG,
            hyperparameters=self.hyperparameters,
            clear=self.clear,
        )
        try:
            if self.make is not None:
                frameworks[Variant.parse(self.framework).framework]  # imported before the clock starts
                log.begin()
                trainer = self.make(self.recipe, self.framework, seed, [*callbacks, log])
            else:
                adapter = as_adapter(self.framework)
                log.begin()
                trainer = train(self.recipe, adapter, seed=seed, callbacks=[*callbacks, log], stop_at_target=False)
            hyperparameters(trainer, self.hyperparameters)  # refused here if it does not tell them all
        except BaseException as error:
            log.abort(error)
            raise
        return trainer


def planned(
    recipe: Recipe,
    on: str = "torch",
    *,
    seeds: Sequence[int],
    output: str | Path,
    facts: Mapping[str, Any] | None = None,
    benchmark: str | None = None,
    clear: Callable[[], Cleared] = clear_caches,
    hyperparameters: Mapping[str, Any] | None = None,
    make: MakeTrainer | None = None,
    logs: bool = True,
) -> Timed:
    """Runs of a recipe until its target, each with a log as MLPerf has it, into a submission's folder.

    Making the framework ready is no part of the time of a run; reading the data, making the network and all that follows
    is. A run that misses its target, fails or is killed has a log that says ``aborted``.

    Args:
        recipe: What is trained.
        on: A framework, or a variant of one.
        seeds: One for each run.
        output: The folder of the organization; made if it is not there.
        facts: What the system's description states; see `deep_bench.mlperf.system`.
        benchmark: What the logs call it; the recipe's name by default. One of MLPerf's names only where data, quality
            measure and target are MLPerf's.
        clear: Clears caches before each run.
        hyperparameters: What recipe and framework do not tell; what they tell is not changed by it.
        make, logs: Of `Timed`.

    Raises:
        InvalidArgument: A recipe without a target, one that is called like a benchmark of MLPerf, an optimizer whose
            learning rate nobody tells, a hyperparameter that is stated otherwise than it is, logs that are there already, or
            facts that cannot be.
        UnknownName: What is stated is no hyperparameter.
        FrameworkMissing: ``mlperf_logging`` is not installed.

    Example:
        >>> import tempfile
        >>> from deep_bench.mlperf.training.callback import kept_caches
        >>> from deep_bench.training.recipes import load_recipe
        >>> recipe = load_recipe("digits", "evaluation.every=256")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     timed = planned(recipe, "reference", seeds=[0], output=folder, clear=kept_caches)
        ...     runs = timed.run(progress=False)
        ...     sorted(path.name for path in timed.layout.results.iterdir())
        ['result_0.txt']
    """
    declared = {**checked(facts or {}), "division": "open"}
    name = checked_name(recipe.name if benchmark is None else benchmark)
    if benchmark is None and name in official_benchmarks():
        raise InvalidArgument(
            f"a recipe that is called {name!r}, as a benchmark of MLPerf is",
            "another name, unless it trains on MLPerf's data to MLPerf's target",
            f"name it: benchmark='my-{name}' (--benchmark), or {name!r} if it is that benchmark",
        )
    if not recipe.fields.target:
        raise InvalidArgument(f"the recipe {recipe.name!r} without a target", "one, as target: {accuracy: 0.97}")
    if len(set(seeds)) < len(seeds) or not seeds:
        raise InvalidArgument(f"seeds {list(seeds)}", "at least one, each of them once")
    settings = dict(hyperparameters or {})
    check_stated(settings)
    derived, rule = told_by_recipe(recipe), rule_of(recipe)
    if make is not None:
        derived.pop("global_batch_size", None)  # that of all ranks is another
    check_needed({**settings, **derived})
    check_untold(settings, derived, rule if recipe.fields.optimizer.schedule is None else None)
    layout = SubmissionLayout(Path(output), slug(declared.get("system_name", "")), name)
    if logs:
        output_folder(layout.results)
        for number in range(len(seeds)):
            if (log := layout.log(number)).exists():
                raise InvalidArgument(
                    f"{log} is there already", "a folder without these runs", "name another, or move it away"
                )
    return Timed(recipe, on, layout, declared, tuple(seeds), clear, make, logs, settings)
