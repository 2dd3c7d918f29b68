"""The state of a training run: losses, phases of each step and evaluations, what callbacks are told, and what identifies it.

A snapshot must have its identity in common with the trainer that goes on from it.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.training.scores import Direction

if TYPE_CHECKING:
    from deep_bench.training.trainer import Trainer

PHASES = ("data", "transfer", "gradients", "update")
"""The parts of a step, in their order; forward and backward are one, since frameworks run them as one."""


@dataclass(frozen=True)
class EvaluationResult:
    """One evaluation.

    Args:
        step: The number of steps taken before it.
        epoch: The number of whole epochs before it.
        samples: The number of samples seen before it.
        time_ns: When it was done, since training began.
        cost_ns: How long it took.
        figures: Name of each score to its value.
    """

    step: int
    epoch: int
    samples: int
    time_ns: int
    cost_ns: int
    figures: Mapping[str, float]


@dataclass(eq=False, repr=False)
class History:
    """A training run so far. All times count from the first touch of the data.

    Args:
        losses: The loss of each step, before its update.
        sizes: The number of samples in each step.
        stamps: Five stamps a step, in nanoseconds: its begin, and the end of each of `PHASES`. The last is that of the
            gradients again where the update is part of the same graph.
        evaluations: In their order.
        setup_ns: What it took to prepare all of it, before.
        stopped_because: ``"epochs done"``, or what asked to stop, and why.
        untold: Steps whose loss nobody told, since the rank that took them was lost; it is NaN in ``losses``.
    """

    losses: array[float] = field(default_factory=lambda: array("d"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    stamps: array[int] = field(default_factory=lambda: array("q"))
    evaluations: list[EvaluationResult] = field(default_factory=list)
    setup_ns: int = 0
    stopped_because: str = ""
    untold: list[int] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        return len(self.sizes)

    @property
    def samples(self) -> int:
        """The number of samples seen."""
        return sum(self.sizes)

    @property
    def wall_ns(self) -> int:
        """The time from the first touch of the data to the end of the last step or evaluation."""
        return max(self.stamps[-1] if self.stamps else 0, self.evaluations[-1].time_ns if self.evaluations else 0)

    @property
    def lost_from(self) -> int | None:
        """The first step, counted from 0, from which on no loss is finite any more; ``None`` where the last is.

        Example:
            >>> History(array("d", [0.5, float("nan"), float("inf")])).lost_from, History(array("d", [0.5])).lost_from
            (1, None)
            >>> History(array("d", [0.5, float("nan")]), untold=[1]).lost_from is None
            True
        """
        steps, finite = self._known_losses()
        if not len(steps) or finite[-1]:
            return None
        return int(steps[np.flatnonzero(finite)[-1] + 1 if finite.any() else 0])

    def _known_losses(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The steps whose loss is known, and whether it is finite in each."""
        steps = np.setdiff1d(np.arange(len(self.losses)), self.untold)
        return steps, np.isfinite(np.asarray(self.losses)[steps])

    def about_losses(self) -> str:
        """Which losses are not finite, in words; empty where all are.

        Example:
            >>> History(array("d", [0.5, float("nan"), float("nan")])).about_losses()
            'no finite loss from step 1 on'
            >>> History(array("d", [0.5, float("nan"), 0.4])).about_losses()
            'no finite loss in 1 of 3 steps, the first of them step 1'
            >>> History(array("d", [0.5, float("nan")]), untold=[1]).about_losses()
            'the loss of 1 step is not known, since its rank was lost'
        """
        sentences = []
        steps, finite = self._known_losses()
        if self.lost_from is not None:
            sentences.append(f"no finite loss from step {self.lost_from} on")
        elif len(lost := steps[~finite]):
            first = f"the first of them step {lost[0]}"
            sentences.append(f"no finite loss in {len(lost)} of {len(self.losses)} steps, {first}")
        if count := len(self.untold):
            of = "1 step" if count == 1 else f"{count} steps"
            since = "its rank was" if count == 1 else "their ranks were"
            sentences.append(f"the loss of {of} is not known, since {since} lost")
        return "; ".join(sentences)

    def phases(self) -> dict[str, NDArray[np.int64]]:
        """Name of each phase to its nanoseconds in each step.

        Example:
            >>> history = History(stamps=array("q", [0, 5, 6, 16, 20, 21, 30, 31, 40, 44]))
            >>> {name: ns.tolist() for name, ns in history.phases().items()}
            {'data': [5, 9], 'transfer': [1, 1], 'gradients': [10, 9], 'update': [4, 4]}
        """
        return dict(zip(PHASES, np.diff(self._table(), axis=1).T, strict=True))

    def step_ns(self) -> NDArray[np.int64]:
        """Nanoseconds of each step, waiting for its data included; of what lies between steps, nothing."""
        table = self._table()
        return np.asarray(table[:, -1] - table[:, 0])

    def split(self) -> dict[str, int]:
        """Where the whole time went, in nanoseconds: each of `PHASES`, ``evaluation``, and ``other``, which is the rest.

        Example:
            >>> history = History(stamps=array("q", [0, 5, 6, 16, 20]), evaluations=[EvaluationResult(1, 0, 8, 50, 25, {})])
            >>> history.split()
            {'data': 5, 'transfer': 1, 'gradients': 10, 'update': 4, 'evaluation': 25, 'other': 5}
        """
        durations = {name: int(ns.sum()) for name, ns in self.phases().items()}
        durations["evaluation"] = sum(e.cost_ns for e in self.evaluations)
        return durations | {"other": self.wall_ns - sum(durations.values())}

    def figures(self, name: str) -> list[float]:
        """One score in all evaluations that have it."""
        return [e.figures[name] for e in self.evaluations if name in e.figures]

    def best(self, name: str, direction: Direction = "higher") -> EvaluationResult | None:
        """The evaluation where a score was best; the first of several, never one where it is NaN."""
        candidates = [e for e in self.evaluations if not np.isnan(e.figures.get(name, np.nan))]
        pick = max if direction == "higher" else min
        return pick(candidates, key=lambda e: e.figures[name], default=None)

    def reached(self, name: str, target: float, direction: Direction = "higher") -> EvaluationResult | None:
        """The first evaluation where a score was at least as good as a target.

        Example:
            >>> history = History(evaluations=[EvaluationResult(s, 0, 0, 0, 0, {"accuracy": s / 10}) for s in range(9)])
            >>> history.reached("accuracy", 0.75).step, history.reached("accuracy", 0.95)
            (8, None)
        """
        return next((e for e in self.evaluations if reaches(e.figures.get(name, np.nan), target, direction)), None)

    def as_tree(self) -> dict[str, Any]:
        """It as arrays and numbers, for a checkpoint."""
        rows = [[getattr(e, name) for name in _COUNTS] for e in self.evaluations]
        figures = {}
        for name in dict.fromkeys(n for e in self.evaluations for n in e.figures):  # not all have each, and any may be NaN
            where = [number for number, e in enumerate(self.evaluations) if name in e.figures]
            figures[name] = {"where": np.array(where, np.int64), "value": np.array(self.figures(name), np.float64)}
        return {
            "losses": np.array(self.losses),
            "sizes": np.array(self.sizes),
            "stamps": np.array(self.stamps),
            "evaluations": np.array(rows, np.int64).reshape(-1, len(_COUNTS)),
            "figures": figures,
            "setup_ns": np.int64(self.setup_ns),
        }

    @classmethod
    def of_tree(cls, tree: Mapping[str, Any]) -> History:
        """The run that `as_tree` described.

        Example:
            >>> history = History(array("d", [2.5]), array("q", [8]), array("q", [0, 1, 2, 3, 4]))
            >>> History.of_tree(history.as_tree()).losses
            array('d', [2.5])
        """
        figures: list[dict[str, float]] = [{} for _ in tree["evaluations"]]
        for name, column in tree["figures"].items():
            for where, value in zip(column["where"], column["value"], strict=True):
                figures[int(where)][name] = float(value)
        counts = [dict(zip(_COUNTS, map(int, row), strict=True)) for row in tree["evaluations"]]
        return cls(
            losses=array("d", np.asarray(tree["losses"]).tolist()),
            sizes=array("q", np.asarray(tree["sizes"]).tolist()),
            stamps=array("q", np.asarray(tree["stamps"]).tolist()),
            evaluations=[EvaluationResult(**of, figures=scores) for of, scores in zip(counts, figures, strict=True)],
            setup_ns=int(tree["setup_ns"]),
        )

    def __repr__(self) -> str:
        remarks = "; ".join(filter(None, (self.stopped_because, self.about_losses())))
        ends = f": {remarks}" if remarks else ""
        amounts = f"{self.steps} steps, {self.samples} samples, {len(self.evaluations)} evaluations"
        return f"<History of {amounts} in {self.wall_ns / 1e9:.3g} s{ends}>"

    def _table(self) -> NDArray[np.int64]:
        return np.array(self.stamps, np.int64).reshape(-1, len(PHASES) + 1)


_COUNTS = ("step", "epoch", "samples", "time_ns", "cost_ns")


def reaches(value: float, target: float, direction: Direction) -> bool:
    """Whether a value is at least as good as a target; NaN never is.

    Example:
        >>> reaches(0.97, 0.97, "higher"), reaches(0.2, 0.1, "lower"), reaches(float("nan"), 0.1, "lower")
        (True, False, False)
    """
    return value >= target if direction == "higher" else value <= target


@dataclass(eq=False)
class Progress:
    """Where a training run is. One object for the whole run, changed from moment to moment: keep copies of what you need.

    Args:
        trainer: The run's trainer.
        history: What happened so far.
        epoch: The number of whole epochs done.
        position: The number of steps done in this epoch.
        indices: The numbers of the samples of this step.
        batch: This step's samples, before the transfer.
        outputs: Of this step's network; native.
        gradients: Of this step, at ``Moment.AFTER_GRADIENTS`` only; native.
        evaluated: The last evaluation.
    """

    trainer: Trainer[Any]
    history: History
    epoch: int = 0
    position: int = 0
    indices: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    batch: Mapping[str, np.ndarray] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    gradients: Mapping[str, Any] = field(default_factory=dict)
    evaluated: EvaluationResult | None = None

    @property
    def step(self) -> int:
        """The number of steps done since the beginning."""
        return self.history.steps

    def stop(self, reason: str) -> None:
        """Ask the run to stop after this step; `History.stopped_because` will have the reason."""
        self.trainer.stop(reason)

    @property
    def loss(self) -> float:
        """The loss of this step. Reading it waits for the device."""
        return self.trainer.read_loss(self.outputs)


_KIND = "kind of step"
"""What cannot be changed from one part of a run to the next: the optimizer's state has another form."""


_KINDS = re.compile(r"\b[A-Z]\w*(?=\()")
"""The classes in what an optimizer shows of itself."""


AFRESH = (
    "or start afresh from its parameters alone, put into the network's file: docs/distributed.md, "
    "'From the parameters of another run'"
)

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def identity_of(taker: Any, loader: Any, seed: int) -> dict[str, str]:
    """The settings that decide what each step does, by name.

    Args:
        taker: What takes the steps.
        loader: What gives the batches.
        seed: Of the draws.
    """
    sampler: Any = getattr(loader, "sampler", None)
    dataset: Any = getattr(loader, "dataset", None)
    facts = sampler.facts() if hasattr(sampler, "facts") else type(sampler).__name__
    size = len(dataset) if hasattr(dataset, "__len__") else "unknown"
    specs = "; ".join(map(str, getattr(dataset, "specs", ())))
    framework = str(getattr(taker.device, "name", type(taker.device).__name__)).partition(":")[0]
    return {
        "framework": framework,
        _KIND: "gradients and update apart" if taker.tells_gradients else "all of it as one graph",
        "optimizer": _ADDRESS.sub("", repr(taker.rule)),
        "order of the samples": json.dumps(facts, sort_keys=True, default=str),
        "samples": f"{size} of {specs}",
        "seed": str(seed),
    }


def packed(identity: dict[str, str]) -> np.ndarray:
    """It as an array of bytes, which a checkpoint can hold."""
    return np.frombuffer(json.dumps(identity).encode(), np.uint8)


def check_identity(mine: dict[str, str], snapshot: Any, *, changed: bool = False) -> None:
    """Whether a snapshot is of a run with the same settings.

    Args:
        mine: Those of the trainer that is to go on.
        snapshot: Those of the snapshot, `packed`.
        changed: Whether other settings are meant; the kind of step must be the same even so.

    Raises:
        InvalidArgument: They differ; what differs is told.
    """
    theirs = unpacked(snapshot)
    differing = [name for name in mine if theirs.get(name) != mine[name] and (name == _KIND or not changed)]
    if not differing:
        return
    advice = "go on with the same settings; or with these by restore(…, changed=True), on the command line --changed"
    if "optimizer" in differing and not same_kind(mine["optimizer"], theirs.get("optimizer", "")):
        advice = (
            "go on with the same optimizer and scheme; with --changed, if the state of another happens to fit; " + AFRESH
        )
    if _KIND in differing:
        advice = f"go on as it began, in {theirs.get('framework')}; or start afresh here"
    raise InvalidArgument(
        "a snapshot of a run with " + "; ".join(f"another {name}: {theirs.get(name)}" for name in differing),
        "; ".join(mine[name] for name in differing),
        advice,
    )


def unpacked(identity: Any) -> dict[str, str]:
    """The inverse of `packed`."""
    facts: dict[str, str] = json.loads(np.asarray(identity, np.uint8).tobytes())
    return facts


def same_kind(one: str, other: str) -> bool:
    """Whether two optimizers that show themselves so are of the same classes, whatever their settings.

    Example:
        >>> same_kind("AllReduce(inner=Adam(lr=1))", "AllReduce(inner=Adam(lr=2))"), same_kind("Adam(lr=1)", "Sgd(lr=1)")
        (True, False)
    """
    return _KINDS.findall(one) == _KINDS.findall(other)


def check_kind(mine: str, snapshot: Any, cause: Exception | None = None) -> None:
    """Whether a snapshot's state is of an optimizer of the same kind.

    Args:
        mine: What the optimizer that is to go on shows of itself.
        snapshot: The identity of the snapshot, `packed`.
        cause: What came of it.

    Raises:
        InvalidArgument: It is of another optimizer or scheme; both are named.
    """
    theirs = unpacked(snapshot).get("optimizer", "")
    if not same_kind(mine, theirs):
        came = f"a snapshot of {theirs}: {mine} has a state of another form"
        raise InvalidArgument(came, "the same optimizer and scheme", f"go on with these; {AFRESH}") from cause
