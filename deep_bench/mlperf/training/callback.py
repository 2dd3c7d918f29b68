"""``MlperfLog``: the log of a training run as MLPerf has it, for any `Trainer`.

What the system remembers of files is cleared before each run, as MLPerf's rules ask.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.events import Moment
from deep_bench.mlperf.training.check import faults
from deep_bench.mlperf.training.hyperparameters import hyperparameters, ranks_of
from deep_bench.mlperf.training.logs import END, SUCCESS, Event, RunLog, Submission, error_line
from deep_bench.training.callbacks import TargetReached
from deep_bench.training.callbacks.stopping import watched
from deep_bench.training.run_state import EvaluationResult, Progress, reaches

_DROP = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True)
class Cleared:
    """Whether caches were cleared.

    Args:
        done: Whether they were.
        how: How, or why not.
    """

    done: bool
    how: str


def clear_caches(file: Path = _DROP) -> Cleared:
    """Write out what is to be written, and let the kernel forget pages, directories and inodes that it can read again.

    It concerns the whole machine, and needs its administrator's rights.

    Args:
        file: Where the kernel is told to.

    Example:
        >>> clear_caches(Path("/nowhere/drop_caches"))
        Cleared(done=False, how='not permitted or not there: /nowhere/drop_caches: No such file or directory')

    Source:
        proc_sys_vm(5), drop_caches; MLCommons, *MLPerf training rules*, data state at start of run.
    """
    os.sync()
    try:
        with open(file, "w", encoding="ascii") as stream:
            stream.write("3")
    except OSError as error:
        return Cleared(False, f"not permitted or not there: {file}: {error.strerror}")
    return Cleared(True, "page cache, dentries and inodes of this machine")


def kept_caches() -> Cleared:
    """Nothing is done: for trying."""
    return Cleared(False, "not asked for")


class MlperfLog:
    """Writes the log of one run: ``:::MLLOG`` lines, in the order of MLPerf's rules.

    When it is made: who ran what, the clearing of caches, ``init_start``. Then whatever has to do with no data may be made
    ready. `begin` starts the clock (``init_stop``, ``run_start``), which the rules want before anything touches the data:
    call it before the data set is made; else the clock starts with the run. Then hyperparameters, blocks of training between
    evaluations, epochs, evaluations, and ``run_stop``: a success only if the target was reached in the last evaluation,
    nothing failed, and the log is as it should be (`deep_bench.mlperf.training.check`). Everything else is aborted, with the
    reason. After a process is killed there is no ``run_stop`` at all.

    Of several ranks only the first has one.

    Args:
        path: A new file.
        submission: Who ran what.
        target: The score to reach and its value; by default those of the trainer's `TargetReached`.
        config: Name of the file that says what was run.
        hyperparameters: What the trainer does not tell; see `deep_bench.mlperf.training.hyperparameters`.
        clear: Clears caches.

    Raises:
        FrameworkMissing: ``mlperf_logging`` is not installed.
        InvalidArgument: The file exists or cannot be made; and when the run begins, that it has no target or no evaluation,
            or that the log has a run already.

    Example:
        >>> import tempfile
        >>> from deep_bench.mlperf.training.callback import kept_caches
        >>> from deep_bench.mlperf.training.logs import read_log
        >>> from deep_bench.training.workload import train
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log = MlperfLog(f"{folder}/result_0.txt", Submission("digits"), clear=kept_caches)
        ...     history = train("digits", on="reference", seed=1, callbacks=[log]).run(steps=2)
        ...     found = read_log(log.path)
        >>> found.status, found.reason, found.value("global_batch_size")
        ('aborted', 'steps done', 64)
    """

    moments = (
        Moment.BEFORE_RUN,
        Moment.BEFORE_EPOCH,
        Moment.AFTER_EVALUATION,
        Moment.AFTER_EPOCH,
        Moment.AFTER_RUN,
    )

    def __init__(
        self,
        path: str | Path,
        submission: Submission,
        *,
        target: tuple[str, float] | None = None,
        config: str = "none",
        hyperparameters: Mapping[str, Any] | None = None,
        clear: Callable[[], Cleared] = clear_caches,
    ) -> None:
        self._target, self._config, self._given = target, config, hyperparameters
        self._direction: Any = "higher"
        self._unit: dict[str, Any] = {}
        self._before: BaseException | None = None
        self._run = RunLog(path)
        self._began = self._epoch = False
        self._block: int | None = None
        self._last: EvaluationResult | None = None
        cleared = clear()
        run = self._run
        note: dict[str, Any] = {"note": submission.note} if submission.note else {}
        run.event("submission_benchmark", submission.benchmark, **note)
        run.event("submission_division", "open")
        run.event("submission_org", submission.org)
        run.event("submission_platform", submission.platform)
        run.event("submission_status", submission.status)
        run.event("cache_clear", cleared.done, how=cleared.how)
        run.start("init_start")

    @property
    def path(self) -> Path:
        """The file."""
        return self._run.path

    def begin(self) -> None:
        """Start the clock; a second time it does nothing."""
        if not self._began:
            self._began = True
            self._run.end("init_stop")
            self._run.start("run_start")

    def abort(self, error: BaseException | str) -> None:
        """End the log of a run that failed before it began; of one that has ended already, nothing is changed."""
        self._run.stop(False, error if isinstance(error, str) else error_line(error))

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:  # noqa: ARG002
        """Write what is due."""
        if moment is Moment.BEFORE_RUN:
            self._start(data)
        elif moment is Moment.BEFORE_EPOCH:
            self._run.start("epoch_start", epoch_num=data.epoch + 1, samples_count=data.history.samples)
            self._epoch = True
        elif moment is Moment.AFTER_EVALUATION and data.evaluated is not None:
            self._evaluated(data, data.evaluated)
        elif moment is Moment.AFTER_EPOCH:
            self._stop_epoch(_place(data))
        elif moment is Moment.AFTER_RUN:
            self._end(data)

    def _start(self, data: Progress) -> None:
        try:
            self._check(data)
            settings = hyperparameters(data.trainer, self._given)
        except DeepBenchError as error:
            self.abort(error)
            raise
        self._before = sys.exception()
        self.begin()
        assert self._target is not None
        self._run.event("eval_target", self._target[1], score=self._target[0], direction=self._direction, **self._unit)
        self._run.event("config_filename", self._config)
        ranks = ranks_of(data.trainer)
        remark: dict[str, Any] = {"note": "one process: nothing is communicated"}
        if ranks > 1:
            remark = {"ranks": ranks, "scheme": repr(data.trainer.taker.rule)}
        for key, setting in settings.items():
            self._run.event(key, setting, **(remark if key == "lowest_numerical_precision_in_comm" else {}))
        self._start_block(data)

    def _check(self, data: Progress) -> None:
        """See that the run begins, and what it is to reach."""
        if self._run.ended or data.step:
            raise InvalidArgument(
                f"a run after {data.step} steps for the log {self.path}", "a run from its beginning, with a log of its own"
            )
        trainer = data.trainer
        if self._target is None:
            reached = next((c for c in trainer.callbacks if isinstance(c, TargetReached)), None)
            if reached is None:
                raise InvalidArgument("a log of MLPerf for a run without a target", "target=('accuracy', 0.97)")
            self._target = reached.score, reached.target
        score = watched(trainer.evaluation, self._target[0], "MlperfLog")
        self._direction, self._unit = score.direction, {"unit": score.unit} if score.unit else {}

    def _start_block(self, data: Progress) -> None:
        self._block = data.epoch + 1
        self._run.start("block_start", first_epoch_num=self._block, samples_count=data.history.samples)

    def _stop_block(self, place: dict[str, Any], at: int | None = None) -> None:
        if self._block is not None:
            self._run.end("block_stop", at=at, first_epoch_num=self._block, **place)
            self._block = None

    def _evaluated(self, data: Progress, evaluation: EvaluationResult) -> None:
        assert self._target is not None
        self._last = evaluation
        begun, place = self._run.now_ms(evaluation.cost_ns), _place(data)
        if data.position == 0:
            self._stop_epoch(place, begun)
        self._stop_block(place, begun)
        score, target = self._target
        metadata: dict[str, Any] = dict(self._unit)
        if other_figures := {name: figure for name, figure in evaluation.figures.items() if name != score}:
            metadata["others"] = other_figures
        self._run.start("eval_start", at=begun, **place)
        self._run.event("eval_accuracy", evaluation.figures[score], score=score, **place, **metadata)
        self._run.end("eval_stop", **place)
        if not reaches(evaluation.figures[score], target, self._direction):
            self._start_block(data)

    def _stop_epoch(self, place: dict[str, Any], at: int | None = None) -> None:
        if self._epoch:
            self._run.end("epoch_stop", at=at, **place)
            self._epoch = False

    def _end(self, data: Progress) -> None:
        if self._run.ended:
            return
        self._stop_epoch(_place(data))
        self._stop_block(_place(data))
        error, success = sys.exception(), False
        if error is not None and error is not self._before:
            reason = error_line(error)
        else:
            reason = data.history.stopped_because or "it broke off"
            if self._target is not None and self._last is not None:
                score, value = self._target
                success = reaches(self._last.figures[score], value, self._direction)
        if success:
            whole = (*self._run.log.events, Event("run_stop", None, {"status": SUCCESS}, self._run.now_ms(), END))
            if wrong := faults(replace(self._run.log, events=whole)):
                success, reason = False, f"the target was reached, but the log is not as it should be: {'; '.join(wrong)}"
        self._run.stop(success, reason)

    def __enter__(self) -> MlperfLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """A log that has no end by now says that its run was aborted."""
        self._run.__exit__(kind, error, trace)


def _place(data: Progress) -> dict[str, Any]:
    """How much training was done: epochs, counted from the first and in parts, and samples."""
    history, samples = data.history, data.trainer.loader.dataset
    begun = sum(history.sizes[len(history.sizes) - data.position :]) if data.position else 0
    return {"epoch_num": round(data.epoch + begun / max(len(samples), 1), 6), "samples_count": history.samples}
