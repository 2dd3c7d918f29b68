"""``compare``: systems on the same inputs, each against each other, and against the reference where there is one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from deep_bench.check.information import nothing_to_compare
from deep_bench.check.judge import judge
from deep_bench.check.truth import Effort, establish
from deep_bench.check.verdict import Verdict, Word
from deep_bench.errors import DeepBenchError, InvalidArgument, UnknownName
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.measure.fleet import Contender
from deep_bench.measure.session import Plan, measure
from deep_bench.measure.statistics import Summary, summarize
from deep_bench.measure.timing import Block
from deep_bench.network.comparison_judgement import between, names_that_differ, not_finite, objections, remarks
from deep_bench.network.contestants import Contestant, Subject, default_label, make_contestant
from deep_bench.network.differences import ORACLE, Difference, Yardstick, badness, difference, from_oracle
from deep_bench.network.inputs import read_inputs
from deep_bench.network.problem import make_problem
from deep_bench.network.settings import Checking, Settings

_FULL_BELOW_SECONDS = 1.0


@dataclass(frozen=True)
class Compared:
    """What was found of one system.

    Args:
        label: Its name.
        kind: What it is.
        word: *right*, *reduced precision*, *wrong*, *cannot tell* or *no information* by the estimate of rounding errors;
            *no reference* where there is nothing to judge by; or *failed*.
        reason: Why.
        judged: What the word rests on: ``"outputs and nodes"``, each node replayed alone too, ``"outputs"``, or nothing.
        bits: Significant bits of its worst output; ``None`` without a reference.
        verdict: The whole verdict, where nodes were replayed.
        blocks: The raw samples of its call; empty where it was not timed.
    """

    label: str
    kind: str
    word: str
    reason: str = ""
    judged: str = ""
    bits: float | None = None
    verdict: Verdict | None = None
    blocks: tuple[Block, ...] = ()

    @property
    def summary(self) -> Summary | None:
        """All statistics of its call, in nanoseconds; ``None`` where it was not timed."""
        return summarize(self.blocks) if self.blocks else None

    @property
    def median(self) -> float | None:
        """The median of its call in seconds; ``None`` where it was not timed."""
        return self.summary.median / 1e9 if self.summary is not None else None


@dataclass(frozen=True, eq=False)
class NetworkComparison(Mapping[str, Compared]):
    """What `compare` found: label to system. Printing it shows the table.

    Args:
        systems: One for each, in the order given.
        against_oracle: How each output differs from the oracle's; empty without a reference.
        pairs: How each output of each system differs from that of each earlier one.
        outputs: Label to outputs, as NumPy arrays.
        notes: What else a reader must know, such as outputs that only some have.
        yardstick: What outputs are judged by; ``None`` without a reference.
    """

    systems: tuple[Compared, ...]
    against_oracle: tuple[Difference, ...]
    pairs: tuple[Difference, ...]
    outputs: Mapping[str, Mapping[str, np.ndarray]]
    notes: tuple[str, ...]
    yardstick: Yardstick | None

    def __getitem__(self, label: str) -> Compared:
        for system in self.systems:
            if system.label == label:
                return system
        raise UnknownName("system of this comparison", label, [s.label for s in self.systems])

    def __iter__(self) -> Any:
        return iter([system.label for system in self.systems])

    def __len__(self) -> int:
        return len(self.systems)

    @property
    def ok(self) -> bool:
        """Whether all were compared, none failed or is wrong, and rounding may explain what they differ by.

        Without a reference, only equal outputs are: nothing says what rounding may do. See `objections`.
        """
        return not self.objections

    @property
    def objections(self) -> tuple[str, ...]:
        """Why it is not `ok`: what failed, is wrong, was not compared or differs; empty where it is."""
        return objections(self)

    def between(self, label: str, base: str, output: str) -> Difference:
        """How one output of a system differs from another's, or from that of ``"oracle"``.

        Args:
            label: The system.
            base: What it is compared with: relative norms are over the base's norms, and units in the last place are the
                base's. The word is the same both ways.
            output: Name of the output.

        Raises:
            UnknownName: There is no such system.
            InvalidArgument: They have no such output in common.
        """
        return between(self, label, base, output)

    def table(self, width: int = 140) -> str:
        """The systems, the differences between them, and what else is worth knowing, as text."""
        from deep_bench.network.comparison_report import as_text

        return as_text(self, width)

    def as_json(self) -> dict[str, Any]:
        """The figures as plain JSON types; times in seconds."""
        from deep_bench.network.comparison_report import as_json

        return as_json(self)

    def plot(self, path: str | Path, output: str | None = None, base: str | None = None) -> Path:
        """Write a picture of where the error of each system sits in one output.

        Args:
            path: The file, a PNG.
            output: Which output; by default the first that all have.
            base: What the errors are relative to: a label, or ``"oracle"``; by default that, or the first system.

        Raises:
            InvalidArgument: No such output or system, or there is nothing to draw: strings, or no two arrays of one shape.
        """
        from deep_bench.network.comparison_plot import plot

        return plot(self, Path(path), output, base)

    def __repr__(self) -> str:
        return self.table()


def compare(
    executors: Sequence[Any] | Mapping[str, Any],
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    *,
    network: NetworkLike | None = None,
    labels: Sequence[str] | None = None,
    check: Checking = "auto",
    budget: float = 2.0,
    seed: int = 0,
) -> NetworkComparison:
    """Compare two or more of anything: are they right, what do they differ by, how long does each take?

    ========================================== ========================================================================
    what is compared                           given as
    ========================================== ========================================================================
    a framework, with options                  ``"torch:threads=1"``, a ``Variant`` or an adapter, with ``network=``
    a framework on another network             ``("onnxruntime", other)``
    another version of the network             the network, or its ``.onnx`` file: run by the reference
    a prepared network, or wrapped code        the executor
    an ``nn.Module``, a Keras model, a session  as it is; ``deep_bench.adapters.torch.wrap`` and the like take options
    a function                                 from a mapping of NumPy arrays to one
    outputs that are there already             a mapping of arrays, or an ``.npz`` file
    ========================================== ========================================================================

    A framework that runs the network itself is judged as `deep_bench.run` judges it, node by node. Anything else is judged
    by its outputs, which finds faults that change these by more than rounding can. All run in this process, where they may
    disturb each other's times: `deep_bench.run` times each framework in a process of its own.

    Native code is fed by the names of its own inputs or parameters where ``inputs`` has just these, else in the order of
    ``inputs``. Where it returns as many outputs as the network, or as the systems before it, they take those names.

    Args:
        executors: What to compare; a mapping names each.
        inputs: An ``.npz`` file or arrays by name; drawn by default, where there is a network.
        network: What all of them are meant to compute, and so the reference; by default the first network among them.
        labels: A name for each.
        check: How hard to look whether results are right (see `deep_bench.run`); ``"off"`` uses no reference.
        budget: Seconds for timing all of them; 0 times nothing.
        seed: Of drawn inputs, of the random order and of the estimates.

    Raises:
        InvalidArgument: Fewer than two things, something that cannot be compared, labels that are not one for each, or no
            inputs where there is no network.

    Example:
        >>> import deep_bench as db
        >>> saved = db.frameworks["reference"]().prepare(db.load("digits-cnn"))
        >>> digits = {"image": np.random.default_rng(0).random((2, 1, 8, 8), np.float32)}
        >>> found = compare(["onnxruntime", saved(digits)], digits, network="digits-cnn", budget=0)
        >>> found["saved outputs"].word, found.pairs[0].word
        ('right', 'rounding')
    """
    subjects = _labelled(executors, labels)
    settings = Settings(seed=seed, check=check, budget=budget or 1.0)
    network = _found_network(network, subjects.values())
    if network is not None:
        problem = make_problem(network, inputs=inputs, seed=seed)
        network, fed = problem.network, problem.inputs.arrays
    elif inputs is None:
        raise InvalidArgument("no inputs, and no network", "inputs=, or network= to draw inputs for")
    else:
        fed = dict(inputs) if isinstance(inputs, Mapping) else read_inputs(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow and the like is what is compared, no news
        return _compared(subjects, fed, network, settings, budget)


def _compared(
    subjects: Mapping[str, Any], inputs: Mapping[str, np.ndarray], network: Network | None, settings: Settings, budget: float
) -> NetworkComparison:
    yardstick = _yardstick(network, inputs, settings) if network is not None and settings.check != "off" else None
    contestants, outputs, failed = _made(subjects, inputs, network)
    blocks, failures = _timed(contestants, inputs, settings, budget)
    systems = []
    for label in subjects:
        if label in failed or label in failures:
            kind = contestants[label].kind if label in contestants else type(subjects[label]).__name__
            systems.append(Compared(label, kind, "failed", failed.get(label) or failures[label]))
        else:
            system = _judged(contestants[label], outputs[label], inputs, network, yardstick)
            systems.append(_with_blocks(system, blocks.get(label, ())))
    against = [
        from_oracle(name, label, array, yardstick)
        for label, arrays in outputs.items()
        for name, array in arrays.items()
        if yardstick is not None and name in yardstick.truth.outputs
    ]
    pairs = [
        difference(name, label, outputs[label][name], base, outputs[base][name], yardstick)
        for base, label in combinations(outputs, 2)
        for name in outputs[base]
        if name in outputs[label]
    ]
    notes = (*names_that_differ(outputs, yardstick), *not_finite(outputs), *remarks(yardstick, blocks))
    return NetworkComparison(tuple(systems), tuple(against), tuple(pairs), outputs, notes, yardstick)


def _labelled(executors: Sequence[Any] | Mapping[str, Any], labels: Sequence[str] | None) -> dict[str, Any]:
    if isinstance(executors, Mapping):
        if labels is not None:
            raise InvalidArgument("labels beside a mapping, which names each", "one of the two")
        subjects = list(executors.values())
        labels = list(executors)
    else:
        subjects = list(executors) if not isinstance(executors, str) else [executors]
        labels = _told_apart([default_label(subject) for subject in subjects]) if labels is None else list(labels)
    if len(subjects) < 2:
        raise InvalidArgument(f"{len(subjects)} thing to compare", "two or more", "deep_bench.run checks a single framework")
    if len(labels) != len(subjects) or len(set(labels)) < len(labels):
        raise InvalidArgument(f"labels {', '.join(labels)} for {len(subjects)} things", "one for each, all different")
    if ORACLE in labels:
        raise InvalidArgument(f"the label {ORACLE!r}", "another: the reference in float64 is called that")
    return dict(zip(labels, subjects, strict=True))


def _told_apart(labels: Sequence[str]) -> list[str]:
    """The labels, with a number behind each that was there before."""
    return [f"{label} ({labels[: i + 1].count(label)})" if label in labels[:i] else label for i, label in enumerate(labels)]


def _found_network(network: NetworkLike | None, subjects: Any) -> Network | None:
    """The network that all are meant to compute: the stated one, or the first among them."""
    if network is not None:
        return as_network(network)
    for subject in subjects:
        if isinstance(subject, tuple) and len(subject) == 2:
            subject = subject[1]
        if isinstance(subject, Network):
            return subject
        if isinstance(subject, str | Path) and Path(subject).suffix == ".onnx":
            return as_network(subject)
    return None


def _yardstick(network: Network, inputs: Mapping[str, np.ndarray], settings: Settings) -> Yardstick:
    effort: Effort = "full" if settings.check == "full" else "quick"
    begin = perf_counter()
    truth = establish(network, inputs, effort, seed=settings.seed)
    if settings.check == "auto" and perf_counter() - begin < _FULL_BELOW_SECONDS:
        truth = establish(network, inputs, "full", seed=settings.seed)
    return Yardstick(truth)


def _made(
    subjects: Mapping[str, Any], inputs: Mapping[str, np.ndarray], network: Network | None
) -> tuple[dict[str, Contestant], dict[str, dict[str, np.ndarray]], dict[str, str]]:
    """The contestants, the outputs of those that work, and why the others do not."""
    names = tuple(spec.name for spec in network.outputs) if network is not None else None
    contestants: dict[str, Contestant] = {}
    outputs: dict[str, dict[str, np.ndarray]] = {}
    failed: dict[str, str] = {}
    for label, subject in subjects.items():
        try:
            contestants[label] = contestant = make_contestant(subject, label, network, inputs, names)
            outputs[label] = contestant.outputs(inputs)
        except InvalidArgument:
            raise
        except Exception as error:  # a framework, or what the user wrote, fails in its own ways
            failed[label] = _reason(error)
        if names is None and label in outputs:
            names = tuple(outputs[label])
    return contestants, outputs, failed


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, DeepBenchError) else f"{type(error).__name__}: {error}"


def _judged(
    contestant: Contestant,
    outputs: Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray],
    network: Network | None,
    yardstick: Yardstick | None,
) -> Compared:
    label, kind = contestant.label, contestant.kind
    if yardstick is None:
        return Compared(label, kind, "no reference")
    missing = [name for name in yardstick.truth.outputs if name not in outputs]
    if contestant.adapter is not None and contestant.network is network and not missing:
        verdict = judge(yardstick.truth, Subject(contestant, inputs))
        return Compared(label, kind, verdict.word, verdict.reason, "outputs and nodes", verdict.end_to_end_bits, verdict)
    assessments = {name: yardstick.assess(name, outputs[name]) for name in yardstick.truth.outputs if name in outputs}
    if not assessments:
        reason = f"it returns none of the network's outputs, but {', '.join(map(repr, outputs)) or 'nothing'}"
        return Compared(label, kind, "cannot tell", reason)
    name = max(assessments, key=lambda n: (badness(assessments[n].word), -assessments[n].bits))
    word: Word = assessments[name].word
    reason = f"output {name!r} {assessments[name].reason}" if assessments[name].reason else ""
    if word == "right" and (nothing := nothing_to_compare({name: yardstick.truth.outputs[name] for name in assessments})):
        return Compared(label, kind, "no information", nothing, "outputs")
    if missing and word == "right":
        word, reason = "cannot tell", f"it returns no {', '.join(map(repr, missing))}; the other outputs are right"
    return Compared(label, kind, word, reason, "outputs", min(assessment.bits for assessment in assessments.values()))


def _timed(
    contestants: Mapping[str, Contestant], inputs: Mapping[str, np.ndarray], settings: Settings, budget: float
) -> tuple[dict[str, tuple[Block, ...]], dict[str, str]]:
    """The raw samples of each, taken in turn in random order, and why some have none."""
    contenders, failed = [], dict[str, str]()
    for label, contestant in contestants.items() if budget else ():
        try:
            call = contestant.call(inputs)
        except Exception as error:  # as for the outputs
            failed[label] = _reason(error)
            continue
        if call is not None:
            arguments = {"call": call, "executor": contestant.executor}
            contenders.append(Contender(label, "deep_bench.network.contestants:BoundSystem", arguments))
    if not contenders:
        return {}, failed
    measurement = measure(contenders, Plan(0.01, budget, settings.seed, min_ns=10_000_000), in_process=True)
    failed.update({label: _reason(error) for label, error in measurement.failures.items()})
    blocks = {c.label: tuple(b for launch in measurement.blocks(c.label, "native") for b in launch) for c in contenders}
    return blocks, failed


def _with_blocks(system: Compared, blocks: Sequence[Block]) -> Compared:
    facts = {name: getattr(system, name) for name in system.__dataclass_fields__}
    return Compared(**{**facts, "blocks": tuple(blocks)})
