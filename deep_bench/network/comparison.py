"""``compare``: systems on the same inputs, each against each other, and against the reference where there is one.

A contestant is anything that has outputs, made ready so that these can be had and timed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from deep_bench.check.judge import judge
from deep_bench.check.oracle import Effort, establish
from deep_bench.check.special import nothing_to_compare
from deep_bench.check.subject import SubjectCalls
from deep_bench.check.verdict import Verdict, Word
from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidInput, UnknownName, Unsupported
from deep_bench.framework import Adapter, Executor, as_declared, check_inputs
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.measure.session import Plan, measure
from deep_bench.measure.statistics import Summary, summarize
from deep_bench.measure.timing import Block
from deep_bench.network.differences import ORACLE, Difference, Yardstick, badness, difference, from_oracle, norms, unlike
from deep_bench.network.problem import make_problem, read_inputs
from deep_bench.registry import Registry
from deep_bench.study.settings import Checking, NetworkSettings
from deep_bench.variant import Variant
from deep_bench.workers.fleet import Contender

_FULL_BELOW_SECONDS = 1.0


@dataclass(frozen=True)
class ComparedSystem:
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
class NetworkComparison(Mapping[str, ComparedSystem]):
    """What `compare` found: label to system. Printing it shows the table.

    Args:
        systems: One for each, in the order given.
        against_oracle: How each output differs from the oracle's; empty without a reference.
        pairs: How each output of each system differs from that of each earlier one.
        outputs: Label to outputs, as NumPy arrays.
        notes: What else a reader must know, such as outputs that only some have.
        yardstick: What outputs are judged by; ``None`` without a reference.
    """

    systems: tuple[ComparedSystem, ...]
    against_oracle: tuple[Difference, ...]
    pairs: tuple[Difference, ...]
    outputs: Mapping[str, Mapping[str, np.ndarray]]
    notes: tuple[str, ...]
    yardstick: Yardstick | None

    def __getitem__(self, label: str) -> ComparedSystem:
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
        from deep_bench.network.plots import plot_comparison

        return plot_comparison(self, Path(path), output, base)

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
    settings = NetworkSettings(seed=seed, check=check, budget=budget or 1.0)
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
        return _comparison_of(subjects, fed, network, settings, budget)


def _comparison_of(
    subjects: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    network: Network | None,
    settings: NetworkSettings,
    budget: float,
) -> NetworkComparison:
    yardstick = _yardstick(network, inputs, settings) if network is not None and settings.check != "off" else None
    contestants, outputs, failed = _contestants_of(subjects, inputs, network)
    blocks, failures = _blocks_of(contestants, inputs, settings, budget)
    systems = []
    for label in subjects:
        if label in failed or label in failures:
            kind = contestants[label].kind if label in contestants else type(subjects[label]).__name__
            systems.append(ComparedSystem(label, kind, "failed", failed.get(label) or failures[label]))
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
        labels = _distinct_labels([default_label(subject) for subject in subjects]) if labels is None else list(labels)
    if len(subjects) < 2:
        raise InvalidArgument(f"{len(subjects)} thing to compare", "two or more", "deep_bench.run checks a single framework")
    if len(labels) != len(subjects) or len(set(labels)) < len(labels):
        raise InvalidArgument(f"labels {', '.join(labels)} for {len(subjects)} things", "one for each, all different")
    if ORACLE in labels:
        raise InvalidArgument(f"the label {ORACLE!r}", "another: the reference in float64 is called that")
    return dict(zip(labels, subjects, strict=True))


def _distinct_labels(labels: Sequence[str]) -> list[str]:
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


def _yardstick(network: Network, inputs: Mapping[str, np.ndarray], settings: NetworkSettings) -> Yardstick:
    effort: Effort = "full" if settings.check == "full" else "quick"
    begin = perf_counter()
    truth = establish(network, inputs, effort, seed=settings.seed)
    if settings.check == "auto" and perf_counter() - begin < _FULL_BELOW_SECONDS:
        truth = establish(network, inputs, "full", seed=settings.seed)
    return Yardstick(truth)


def _contestants_of(
    subjects: Mapping[str, Any], inputs: Mapping[str, np.ndarray], network: Network | None
) -> tuple[dict[str, NetworkContestant], dict[str, dict[str, np.ndarray]], dict[str, str]]:
    """The contestants, the outputs of those that work, and why the others do not."""
    names = tuple(spec.name for spec in network.outputs) if network is not None else None
    contestants: dict[str, NetworkContestant] = {}
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
    contestant: NetworkContestant,
    outputs: Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray],
    network: Network | None,
    yardstick: Yardstick | None,
) -> ComparedSystem:
    label, kind = contestant.label, contestant.kind
    if yardstick is None:
        return ComparedSystem(label, kind, "no reference")
    missing = [name for name in yardstick.truth.outputs if name not in outputs]
    if contestant.adapter is not None and contestant.network is network and not missing:
        verdict = judge(
            yardstick.truth, SubjectCalls(lambda: contestant.outputs(inputs), contestant.run, contestant.adapter.upgrades)
        )
        return ComparedSystem(
            label, kind, verdict.word, verdict.reason, "outputs and nodes", verdict.end_to_end_bits, verdict
        )
    assessments = {name: yardstick.assess(name, outputs[name]) for name in yardstick.truth.outputs if name in outputs}
    if not assessments:
        reason = f"it returns none of the network's outputs, but {', '.join(map(repr, outputs)) or 'nothing'}"
        return ComparedSystem(label, kind, "cannot tell", reason)
    name = max(assessments, key=lambda n: (badness(assessments[n].word), -assessments[n].bits))
    word: Word = assessments[name].word
    reason = f"output {name!r} {assessments[name].reason}" if assessments[name].reason else ""
    if word == "right" and (nothing := nothing_to_compare({name: yardstick.truth.outputs[name] for name in assessments})):
        return ComparedSystem(label, kind, "no information", nothing, "outputs")
    if missing and word == "right":
        word, reason = "cannot tell", f"it returns no {', '.join(map(repr, missing))}; the other outputs are right"
    return ComparedSystem(label, kind, word, reason, "outputs", min(assessment.bits for assessment in assessments.values()))


def _blocks_of(
    contestants: Mapping[str, NetworkContestant], inputs: Mapping[str, np.ndarray], settings: NetworkSettings, budget: float
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
            contenders.append(Contender(label, "deep_bench.network.comparison:BoundSystem", arguments))
    if not contenders:
        return {}, failed
    measurement = measure(contenders, Plan(0.01, budget, settings.seed, min_ns=10_000_000), in_process=True)
    failed.update({label: _reason(error) for label, error in measurement.failures.items()})
    blocks = {c.label: tuple(b for launch in measurement.blocks(c.label, "native") for b in launch) for c in contenders}
    return blocks, failed


def _with_blocks(system: ComparedSystem, blocks: Sequence[Block]) -> ComparedSystem:
    facts = {name: getattr(system, name) for name in system.__dataclass_fields__}
    return ComparedSystem(**{**facts, "blocks": tuple(blocks)})


Arrays = dict[str, np.ndarray]

wrappers = Registry(
    "wrapper of native code",
    "deep_bench.wrappers",
    builtin={
        "keras": "deep_bench.adapters.tensorflow:wrap",
        "onnxruntime": "deep_bench.adapters.onnxruntime:wrap",
        "torch": "deep_bench.adapters.torch:wrap",
    },
)
"""The package that a class comes from, to what makes an executor of its objects: ``wrap(thing, inputs, outputs)``."""


class NetworkContestant:
    """One of the things that are compared.

    Args:
        label: What it is called.
        kind: What it is, in a few words.
        executor: What runs it, if that is an executor.
        function: What runs it, if that is a function of NumPy arrays.
        saved: Its outputs, if these are there already.
        adapter: What it was prepared by, if that is known: each node can then be run alone.
        network: The network that it was prepared from, if that is known.
        cast: Whether it runs in another precision than the network's, so that its outputs are judged by their values.
    """

    def __init__(
        self,
        label: str,
        kind: str,
        *,
        executor: Executor[Any] | None = None,
        function: Callable[[Arrays], Mapping[str, Any]] | None = None,
        saved: Arrays | None = None,
        adapter: Adapter[Any] | None = None,
        network: Network | None = None,
        cast: bool = False,
    ) -> None:
        self.label, self.kind = label, kind
        self.executor, self.adapter, self.network = executor, adapter, network
        self._function, self._saved, self._cast = function, saved, cast

    def outputs(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Its outputs for these inputs, as NumPy arrays."""
        if self._saved is not None:
            return dict(self._saved)
        if self.executor is not None:
            return self._declared(self.network, self.executor(inputs))
        assert self._function is not None
        outputs = self._function(_copies(inputs))
        if not isinstance(outputs, Mapping):
            raise InvalidInput(f"a {type(outputs).__name__} as outputs", "a mapping from name to array")
        return {name: _as_array(name, array) for name, array in outputs.items()}

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Prepare another network with the same adapter, and run it."""
        if self.adapter is None:
            raise InvalidArgument(f"{self.label} runs no networks", "a framework, or a network in one")
        return self._declared(network, self.adapter.prepare(network)(inputs))

    def call(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], object] | None:
        """What is timed: a call on the framework's own arrays; a function's on NumPy arrays. ``None`` for saved outputs."""
        if self.executor is not None:
            checked = check_inputs(self.executor.inputs, inputs)
            return self.executor.bind({n: self.executor.device.from_numpy(a) for n, a in checked.items()})
        if self._function is None:
            return None
        function, arrays = self._function, _copies(inputs)
        return lambda: function(arrays)

    def _declared(self, network: Network | None, outputs: Mapping[str, Any]) -> Arrays:
        arrays = {name: _as_array(name, array) for name, array in outputs.items()}
        return as_declared(network, arrays) if network is not None and self._cast else arrays


def _copies(inputs: Mapping[str, np.ndarray]) -> Arrays:
    """Arrays of its own for a function, which may write into them."""
    return {name: np.array(array) for name, array in inputs.items()}


def _as_array(name: str, value: Any) -> np.ndarray:
    if value is None or (isinstance(value, list | tuple) and any(isinstance(item, np.ndarray) for item in value)):
        description = "an empty optional" if value is None else "a sequence"
        raise Unsupported(f"the output {name!r} is {description}", "tensors, since only those are compared")
    return np.asarray(value)


@dataclass(frozen=True)
class BoundSystem:
    """A contestant's call as a system under test; see `deep_bench.workers.host.System`.

    Args:
        call: What is timed.
        executor: What it belongs to, if to an executor.
    """

    call: Callable[[], object]
    executor: Executor[Any] | None
    threaded: bool = True

    @property
    def timer(self) -> Any:
        """The device's own clock, where the executor has one."""
        return getattr(self.executor, "timer", None)

    def prepare(self) -> dict[str, Any]:
        """Call it once; that it works is known, its device may still have something to compile."""
        self.call()
        return {}

    def calls(self) -> Mapping[str, Callable[[], object]]:
        """The one call."""
        return {"native": self.call}

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.executor is not None:
            self.executor.device.synchronize()


def make_contestant(
    given: Any, label: str, network: Network | None, inputs: Mapping[str, np.ndarray], outputs: tuple[str, ...] | None
) -> NetworkContestant:
    """Make ready what `compare` was given.

    Args:
        given: See `deep_bench.network.compare`.
        label: What to call it.
        network: What frameworks run that were given by their name.
        inputs: What all are fed.
        outputs: How native code's outputs are named, where it returns as many.
    """
    if isinstance(given, tuple) and len(given) == 2:
        return _prepare(_adapter(given[0]), given[0], label, _network(given[1]))
    if isinstance(given, Mapping) or _is_file(given, ".npz"):
        saved = dict(given) if isinstance(given, Mapping) else read_inputs(given)
        return NetworkContestant(label, "saved outputs", saved={name: np.asarray(array) for name, array in saved.items()})
    if isinstance(given, Network) or _is_file(given, ".onnx"):
        return _prepare(_adapter("reference"), "reference", label, _network(given))
    if isinstance(given, str | Variant | Adapter):
        if network is None:
            raise InvalidArgument(
                f"the framework {given} without a network",
                "network=…",
                f"or a network for it alone: ({str(given)!r}, network)",
            )
        return _prepare(_adapter(given), given, label, network)
    if isinstance(given, Executor):
        return NetworkContestant(label, f"executor on {type(given.device).__name__}", executor=given)
    home = native_home(given)
    if home is not None:
        return NetworkContestant(label, f"{home}: {type(given).__name__}", executor=_wrapped(home, given, inputs, outputs))
    if callable(given):
        return NetworkContestant(label, "function of NumPy arrays", function=given)
    raise InvalidArgument(
        f"a {type(given).__name__} to compare",
        "a framework's name, (framework, network), a network, an executor, a module, model, session or function, "
        "or saved outputs",
    )


def native_home(thing: Any) -> str | None:
    """The package, among those whose native code can be wrapped, that an object's class comes from; imports nothing."""
    roots = [kind.__module__.partition(".")[0] for kind in type(thing).__mro__]
    return next((root for root in roots if root in wrappers), None)


def default_label(given: Any) -> str:
    """What a contestant is called that was given no label."""
    if isinstance(given, tuple) and len(given) == 2:
        return f"{default_label(given[0])} on {default_label(given[1])}"
    if isinstance(given, Mapping):
        return "saved outputs"
    if isinstance(given, Network | Adapter):
        return given.name
    if isinstance(given, str | Variant):
        return str(given)
    return given.stem if isinstance(given, Path) else getattr(given, "__name__", type(given).__name__)


def _wrapped(
    home: str, native_code: Any, inputs: Mapping[str, np.ndarray], outputs: tuple[str, ...] | None
) -> Executor[Any]:
    """Native code as an executor; its outputs under the names that others have for them, if there are as many."""
    wrap = wrappers[home]
    executor = wrap(native_code, inputs)
    if outputs is None or set(executor.output_names) == set(outputs) or len(executor.output_names) != len(outputs):
        return executor
    return wrap(native_code, inputs, outputs)


def _prepare(adapter: Adapter[Any], framework: Any, label: str, network: Network) -> NetworkContestant:
    facts = adapter.describe()
    kind = f"{adapter.name} {facts['version']}, {facts['device']}" if {"version", "device"} <= set(facts) else adapter.name
    variant = Variant.parse(framework) if isinstance(framework, str) else framework
    cast = isinstance(variant, Variant) and "dtype" in variant.options
    return NetworkContestant(label, kind, executor=adapter.prepare(network), adapter=adapter, network=network, cast=cast)


def _adapter(framework: Any) -> Adapter[Any]:
    if isinstance(framework, Adapter):
        return framework
    if not isinstance(framework, str | Variant):
        raise InvalidArgument(
            f"a {type(framework).__name__} as a framework", "a name such as 'torch:threads=1', or an adapter"
        )
    return (Variant.parse(framework) if isinstance(framework, str) else framework).create()


def _network(source: Any) -> Network:
    return as_network(source)


def _is_file(source: Any, suffix: str) -> bool:
    return isinstance(source, str | Path) and Path(source).suffix == suffix


_BAD = ("failed", "wrong")
_UNDECIDED = ("cannot tell", "no information")


def objections(found: NetworkComparison) -> tuple[str, ...]:
    """Why a comparison is not `NetworkComparison.ok`, one sentence each; nothing where it is."""
    statements = [f"{s.label} {'failed' if s.word == 'failed' else 'is wrong'}" for s in found.systems if s.word in _BAD]
    statements += _not_compared(found)
    for pair in found.pairs:
        if pair.word == "more than rounding":
            statements.append(f"output {pair.output!r} of {pair.label} and {pair.base} differs by more than rounding")
        elif pair.word == "no reference":
            statements.append(f"output {pair.output!r} of {pair.label} and {pair.base} differs, and there is no reference")
    if not statements and not any(map(_decided, (*found.against_oracle, *found.pairs))):
        statements.append("nothing could be decided")
    return tuple(statements)


def _decided(pair: Difference) -> bool:
    """Whether there was something to compare: where all is NaN or nothing is there, anything would be as good."""
    figures = pair.norms
    empty = figures is not None and figures.size == figures.not_finite
    return pair.word not in _UNDECIDED and not empty


def _not_compared(comparison: NetworkComparison) -> Iterator[str]:
    """The systems that have no output in common, and those without an output of the network's."""
    required = () if comparison.yardstick is None else tuple(comparison.yardstick.truth.outputs)
    for label, arrays in comparison.outputs.items():
        if missing := [name for name in required if name not in arrays]:
            yield f"{label} has no output {missing[0]!r}"
    compared = {frozenset((pair.label, pair.base)) for pair in comparison.pairs}
    for first, second in combinations(comparison.outputs, 2):
        if frozenset((first, second)) not in compared:
            yield f"{second} and {first} have no output in common"


def between(found: NetworkComparison, label: str, base: str, output: str) -> Difference:
    """See `NetworkComparison.between`."""
    every = (*found.against_oracle, *found.pairs)
    for pair in every:
        if (pair.label, pair.base, pair.output) == (label, base, output):
            return pair
        if (pair.base, pair.label, pair.output) == (label, base, output):
            return _turned(found, pair)
    for name in (label, base):
        if name not in found and name != ORACLE:
            raise UnknownName("system of this comparison", name, [*found, ORACLE])
    descriptions = {f"{pair.output!r} of {pair.label} and {pair.base}" for pair in every}
    raise InvalidArgument(
        f"no comparison of {output!r} of {label} with {base}", f"one of these: {'; '.join(sorted(descriptions)) or '(none)'}"
    )


def _turned(comparison: NetworkComparison, pair: Difference) -> Difference:
    """The same comparison the other way round: its word stays, what is relative to the base changes."""
    actual, base = (_output_of(comparison, label, pair.output) for label in (pair.base, pair.label))
    figures = None if pair.norms is None else norms(actual, base)
    bits = pair.bits
    if figures is not None and pair.word in ("equal", "no reference"):
        bits = figures.comparable_bits
    reason = pair.reason if pair.alike else unlike(actual, base)
    return replace(pair, label=pair.base, base=pair.label, norms=figures, bits=bits, reason=reason)


def _output_of(comparison: NetworkComparison, label: str, output: str) -> np.ndarray:
    if label != ORACLE:
        return comparison.outputs[label][output]
    assert comparison.yardstick is not None
    return np.asarray(comparison.yardstick.truth.outputs[output])


def names_that_differ(outputs: Mapping[str, Mapping[str, np.ndarray]], yardstick: Yardstick | None) -> list[str]:
    """What of the outputs' names not all agree on."""
    reference = {} if yardstick is None else {"the network": yardstick.truth.outputs}
    names = {label: list(arrays) for label, arrays in {**reference, **outputs}.items()}
    every = list(dict.fromkeys(name for output_names in names.values() for name in output_names))
    notes = []
    for name in every:
        without = [label for label, output_names in names.items() if name not in output_names]
        owners = [label for label in names if label not in without]
        if without and len(without) <= len(owners):
            notes.append(f"the output {name!r} is missing in {', '.join(without)}, and not compared there")
        elif without:
            notes.append(f"the output {name!r} is in {', '.join(owners)} only, and not compared with the others")
    return notes


def not_finite(outputs: Mapping[str, Mapping[str, np.ndarray]]) -> list[str]:
    """Which outputs hold NaN or infinity, and how many."""
    notes = []
    for label, arrays in outputs.items():
        for name, array in arrays.items():
            if array.dtype.kind not in "OSUbiu" and (count := int(np.count_nonzero(~_finite(array)))):
                notes.append(f"{count} of the {array.size} elements of output {name!r} of {label} are NaN or infinite")
    return notes


def _finite(array: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.isfinite(array.astype(np.complex128 if np.iscomplexobj(array) else np.float64))


def remarks(yardstick: Yardstick | None, blocks: Mapping[str, Any]) -> list[str]:
    """What holds for the comparison as a whole."""
    notes = []
    if yardstick is None:
        notes.append("no reference: the differences are plain norms, and nothing says which of the systems is right")
    if blocks:
        notes.append(
            "timed in turn, in random order, in this one process, where systems disturb each other; "
            "deep_bench.run gives each framework a process of its own"
        )
    return notes
