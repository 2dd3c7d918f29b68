"""Shrinking a disagreement, a crash or slowness to the smallest network that still shows it; saved for a bug report.

What a reduced network must still show is a predicate. The scripts that come with it are a few lines each, which do without
deep_bench.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
import weakref
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from deep_bench.check.judge import judge
from deep_bench.check.oracle import establish, narrowed
from deep_bench.check.subject import InProcessSubject
from deep_bench.errors import DeepBenchError, InvalidArgument, WorkerDied, WorkerError
from deep_bench.framework import Adapter
from deep_bench.graph import Network, attributes, operator_name
from deep_bench.measure.progress import Bars
from deep_bench.network.adapter_process import ProcessAdapter, as_adapter, as_given, called, code_of, converts, failing
from deep_bench.network.candidate import (
    Candidate,
    OutOfTimeError,
    Predicate,
    Search,
    bypass,
    fewer_nodes,
    fewer_outputs,
    shrink,
    simpler_attributes,
    simpler_values,
)
from deep_bench.network.divergence import ACCUSED
from deep_bench.network.gradient.pullback import Pullback, pull_back
from deep_bench.network.problem import NetworkProblem, make_problem
from deep_bench.records.folders import output_folder
from deep_bench.study.judging import quiet, suitable
from deep_bench.tensor import is_float
from deep_bench.variant import Variant
from deep_bench.workers.process import Worker, failure_text, with_details

__all__ = ["Crashes", "Reduced", "Slower", "Wrong", "reduce"]

_SEARCH_ROUNDS = 4

End = Literal["finished", "time", "interrupted"]
"""What ended a search."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """The smallest network that was found.

    Args:
        network: It.
        inputs: What it is fed.
        expected: The oracle's outputs; empty if a node has no reference.
        predicate: What it satisfies.
        before: How many nodes there were.
        steps: What made it smaller, in order.
        tried: How many networks the predicate was asked about.
        finished: Whether nothing further can be left out, by these means; else the time was spent.
        interrupted: Whether it was ended by Ctrl-C.
        notes: Remarks.
        crashed: On how many of them a framework's process ended: by a crash, out of memory, or at its time limit.
        seconds: What it took.
    """

    network: Network
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    predicate: Predicate
    before: int
    steps: Sequence[str]
    tried: int
    finished: bool
    interrupted: bool
    notes: Sequence[str] = ()
    crashed: int = 0
    seconds: float = field(default=0.0, compare=False)

    def save(self, folder: str | Path) -> Path:
        """Write ``model.onnx``, ``inputs.npz``, ``expected.npz`` and ``reproduce.py``, which does without deep_bench.

        For a wrong result there is also ``actual.npz``. Files of these names that an earlier reduction left are replaced or
        removed, once all new ones are on the disk.

        Returns:
            The folder.
        """
        self.write(folder)
        return Path(folder)

    def write(self, folder: str | Path) -> list[str]:
        """The same.

        Returns:
            The names of the files that were written.
        """

        return save(self, folder)

    def __str__(self) -> str:
        operators = ", ".join(f"{n.name} ({n.op_type})" for n in self.network.nodes if n.op_type != "Constant")
        end = (
            "smallest" if self.finished else "smallest so far (interrupted)" if self.interrupted else "smallest in that time"
        )
        count = sum(1 for n in self.network.nodes if n.op_type != "Constant")
        tried = f"{self.tried} tried" + (f" ({self.crashed} crashed)" if self.crashed else "")
        return f"{self.before} nodes reduced to {count} in {self.seconds:.0f} s, {tried}, {end}: {operators}"


def reduce(
    network: str | Path | Network,
    inputs: str | Path | Mapping[str, np.ndarray] | None,
    predicate: Predicate,
    *,
    budget: float = 300.0,
    sizes: Mapping[str, int] | None = None,
    batch: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Reduced:
    """Shrink a network and its inputs to the smallest that still satisfies a predicate.

    Delta debugging on the graph: nodes and outputs are left out, with the oracle's values fed in their place; nodes are
    bypassed; dimensions of inputs and weights are cut; attributes are left to their defaults; numbers made simple. Each
    candidate is checked by the predicate. Where the framework's process ends on one, that candidate does not satisfy it
    (unless a crash is what is looked for), and another process is started.

    Args:
        network: A network, a file, or the name of one that ships.
        inputs: An ``.npz`` file or arrays by name; ``None`` draws them.
        predicate: Called with a network and its inputs; `Wrong`, `Crashes` and `Slower` are ready-made. An exception counts
            as ``False``, but for the first call. Dimensions are fixed, unless it has an attribute ``as_given`` that is true.
        budget: Seconds for the search. What was found by then is kept; so it is after Ctrl-C.
        sizes, batch, seed: As for `run`.
        progress: False shows no bar on a terminal.

    Raises:
        InvalidArgument: The predicate does not hold for the network itself.

    Example:
        >>> import deep_bench as db
        >>> def has_pool(network, inputs):
        ...     return any(node.op_type == "MaxPool" for node in network.nodes)
        >>> found = db.network.reduce("digits-cnn", None, has_pool)
        >>> [node.name for node in found.network.nodes], [str(spec) for spec in found.network.inputs]
        (['pool'], ['pointwise_active: float32[1, 1, 1, 1]'])

    Source:
        Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*, IEEE TSE 28(2), 2002.
    """
    start = time.perf_counter()
    problem = make_problem(network, inputs=inputs, sizes=sizes, batch=batch, seed=seed)
    whole = _first(predicate, problem)
    bars = Bars(progress)
    bars.phase("reducing", budget, "s")
    search = Search(predicate, whole, budget, bars)
    with closing(bars):
        end = _searched(search)
    return _result(search, whole, end, time.perf_counter() - start)


def _first(predicate: Predicate, problem: NetworkProblem) -> Candidate:
    """The network itself, for which the predicate holds."""
    posed = problem.source if getattr(predicate, "as_given", False) else problem.network
    whole = Candidate(posed, problem.inputs.arrays)
    with quiet():
        shown = predicate(whole.network, whole.inputs)
    if not shown:
        raise InvalidArgument(
            f"{whole.network.name} does not show it: {_description(predicate)}",
            "a network and inputs for which the predicate holds",
            "see what `deep-bench diverge` says of it, or give other inputs",
        )
    return whole


def _searched(search: Search) -> End:
    """Search until nothing helps, the time is spent, or the user has had enough."""
    try:
        # all means in turn, those that change the structure until none helps
        for _ in range(_SEARCH_ROUNDS):
            before = len(search.steps)
            if search.best.comparable:
                fewer_nodes(search)
            fewer_outputs(search)
            if search.best.comparable:
                bypass(search)
            shrink(search)
            if len(search.steps) == before:
                break
        simpler_attributes(search)
        shrink(search)
        simpler_values(search)
    except OutOfTimeError:
        return "time"
    except KeyboardInterrupt:
        return "interrupted"
    return "finished"


def _result(search: Search, whole: Candidate, end: End, seconds: float) -> Reduced:
    best = search.best
    notes = []
    if search.failed:
        notes.append(
            f"the predicate failed on {search.failed} candidates, which counts as no; first: {search.first_failure}"
        )
    if not whole.comparable:
        notes.append("a node has no reference, so nothing could be fed in place of nodes, and dimensions were left alone")
    return Reduced(
        network=best.network,
        inputs=best.inputs,
        expected=best.expected() if best.comparable else {},
        predicate=search.predicate,
        before=len(whole.nodes),
        steps=tuple(search.steps),
        tried=search.tried,
        finished=end == "finished",
        interrupted=end == "interrupted",
        notes=tuple(notes),
        crashed=search.crashed,
        seconds=seconds,
    )


def _description(predicate: Any) -> str:
    return str(getattr(predicate, "description", getattr(predicate, "__name__", type(predicate).__name__)))


_RUNNER = "deep_bench.network.system:NetworkRunner"
_TIMING_ROUNDS = 3

LIMIT = 120.0
"""Seconds after which a framework counts as hanging on a network."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A network, its inputs, what the oracle gives for it, and what a framework gives."""

    network: Network
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    actual: Mapping[str, np.ndarray]


class Wrong:
    """Whether a framework's result is wrong, or of reduced precision, by the verdict.

    A framework that is given as a variant runs in a worker process, and may crash there: it ends with the ``with``
    statement, or with this object. The reference, and an adapter that is given, run in this process.

    Args:
        on: The framework, as a variant or an adapter.
        gradients: Whether its gradients are meant, of a weighted sum of the network's floating-point outputs with respect to
            inputs and parameters, by the framework's own differentiation.
        limit: Seconds after which a process counts as hanging, and is ended.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_sizes({"batch": 1})
        >>> Wrong("reference")(network, {"image": np.zeros((1, 1, 8, 8), np.float32)})
        False
    """

    def __init__(self, on: str | Variant | Adapter[Any], *, gradients: bool = False, limit: float = LIMIT) -> None:
        self._on = Variant.parse(on) if isinstance(on, str) else on
        self.system, self.gradients, self._limit = called(on), gradients, limit
        self._cast, self._started = converts(on), ExitStack()
        weakref.finalize(self, self._started.close)
        self.description = f"{'gradients' if gradients else 'results'} of {self.system} that rounding cannot explain"

    @cached_property
    def adapter(self) -> Adapter[Any]:
        """The framework; its process is started when this is first asked for."""
        if isinstance(self._on, Adapter) or self._on.framework == "reference":
            return as_adapter(self._on)
        return self._started.enter_context(ProcessAdapter(self._on, limit=self._limit))

    @property
    def as_given(self) -> bool:
        """Whether it runs networks as their files have them, open dimensions included."""
        return not self.adapter.upgrades

    @property
    def deaths(self) -> int:
        """How many times the framework's process ended."""
        return self.adapter.process.deaths if isinstance(self.adapter, ProcessAdapter) else 0

    @contextmanager
    def _named(self) -> Iterator[None]:
        """What the framework's process raises, with the framework's name."""
        try:
            yield
        except WorkerDied:
            raise
        except WorkerError as error:
            if not isinstance(self.adapter, ProcessAdapter):
                raise
            message = f"{self.system}: it cannot run this network on these inputs: {error.came}"
            raise with_details(WorkerError(message), error) from error

    def __call__(self, network: Network, inputs: Mapping[str, np.ndarray]) -> bool:
        """Judge the framework on a network.

        Raises:
            InvalidInput: The reference cannot run it on these inputs.
            WorkerError: The framework cannot.
            WorkerDied: Its process ended.
        """
        with self._named():
            return self._judged(network, inputs) in ACCUSED

    def _judged(self, network: Network, inputs: Mapping[str, np.ndarray]) -> str:
        """The verdict's word."""
        if self.gradients:
            with suitable(network.name):
                posed = weighted(network, inputs)
                truth = posed.truth()
            return posed.judged(truth, self.adapter, cast=self._cast).word
        with suitable(network.name):
            truth = establish(network, inputs)
        with failing(self.adapter.name):
            return judge(truth, InProcessSubject(self.adapter, network, inputs, cast=self._cast)).word

    def evidence(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Mismatch:
        """What there is to show: for gradients, of the network with its loss."""
        if self.gradients:
            posed = weighted(network, inputs)
            truth = posed.truth()
            expected = {n: narrowed(np.asarray(y), truth.formats.get(n)) for n, y in truth.outputs.items()}
            actual = posed.gradients(self.adapter, cast=self._cast)
            return Mismatch(posed.network, posed.inputs, expected, actual)
        with failing(self.adapter.name):
            actual = InProcessSubject(self.adapter, network, inputs, cast=self._cast).outputs()
        return Mismatch(network, inputs, Candidate(network, inputs).expected(), actual)

    def close(self) -> None:
        """End the framework's process, for good."""
        self._started.close()

    def __enter__(self) -> Wrong:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def weighted(network: Network, inputs: Mapping[str, np.ndarray]) -> Pullback:
    """The network with a loss: the sum of its floating-point outputs' elements, with random weights that depend on shapes.

    Raises:
        InvalidArgument: It has no such output.
    """
    outputs = {n: y for n, y in Candidate(network, inputs).expected().items() if is_float(y.dtype)}
    if not outputs:
        raise InvalidArgument(f"{network.name} has no floating-point output", "one to differentiate")
    weights = {n: np.random.default_rng(y.shape).standard_normal(y.shape).astype(y.dtype) for n, y in outputs.items()}
    return pull_back(network, inputs, weights)


class Crashes:
    """Whether a framework fails on a network, in the way that it did on the first one: the process ends, or an error.

    It runs in a worker process. Errors count as the same if they are of one class.

    Use it in a ``with`` statement, which ends the process.

    Args:
        on: The framework, as a variant.
        limit: Seconds after which a process counts as hanging, and is ended.
    """

    def __init__(self, on: str | Variant, *, limit: float = LIMIT) -> None:
        self.system, self.as_given = str(on), as_given(on)
        self.description = f"a failure of {self.system}"
        self.failure = ""
        self._first = ""
        self._process = Worker(_RUNNER, {"variant": self.system}, label=self.system, limit_s=limit, lasting=True)

    def __call__(self, network: Network, inputs: Mapping[str, np.ndarray]) -> bool:
        """Run the network in a worker process."""
        kind = self._kind(network, inputs)
        self._first = self._first or kind
        return bool(kind) and kind == self._first

    def _kind(self, network: Network, inputs: Mapping[str, np.ndarray]) -> str:
        """How it fails; empty if it does not."""
        self._process.start()  # what fails here says nothing about the network
        try:
            self._process.call("run", network.to_proto().SerializeToString(), dict(inputs))
        except WorkerDied as error:
            self.failure = self.failure or str(error)
            return "the process ended"
        except WorkerError as error:
            message = failure_text(error, self.system)
            self.failure = self.failure or f"{self.system}: {message}"
            return ": ".join(message.split(": ")[:2])  # the class of the error
        except DeepBenchError as error:
            self.failure = self.failure or str(error)
            return type(error).__name__
        return ""

    @property
    def deaths(self) -> int:
        """How many times the framework's process ended."""
        return self._process.deaths

    def close(self) -> None:
        """End the worker process, for good."""
        self._process.close()

    def __enter__(self) -> Crashes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Slower:
    """Whether one framework is slower than another by a factor, each in a worker process that stands still meanwhile.

    Use it in a ``with`` statement, which ends them. The medians of a few interleaved rounds decide: enough to look for what
    is slow, no measurement to publish. What a framework does around its kernels counts too: where that differs by the
    factor, the smallest network is a small one.

    Args:
        on: The framework, as a variant.
        than: The one to compare it with.
        times: The factor, above 1.
        limit: Seconds after which a process counts as hanging, and is ended.

    Raises:
        InvalidArgument: Another factor, or one framework twice.
    """

    def __init__(self, on: str | Variant, than: str | Variant, times: float = 2.0, *, limit: float = LIMIT) -> None:
        if not (math.isfinite(times) and times > 1):
            raise InvalidArgument(f"slower by a factor of {times}", "a finite one above 1")
        if str(on) == str(than):
            raise InvalidArgument(f"{on} slower than itself", "another framework, or the same one with other options")
        self.system, self.than, self.times, self.as_given = str(on), str(than), times, as_given(on)
        self.description = f"a network that takes {self.system} {times:g} times as long as {self.than}"
        self._processes = {
            label: Worker(_RUNNER, {"variant": label}, label=label, limit_s=limit, lasting=True)
            for label in (self.system, self.than)
        }

    @property
    def deaths(self) -> int:
        """How many times a framework's process ended."""
        return sum(process.deaths for process in self._processes.values())

    def __call__(self, network: Network, inputs: Mapping[str, np.ndarray]) -> bool:
        """Time both on the network."""
        return self.ratio(network, inputs) >= self.times

    def ratio(self, network: Network, inputs: Mapping[str, np.ndarray]) -> float:
        """The time of the one over that of the other."""
        serialized = network.to_proto().SerializeToString()
        durations: dict[str, list[float]] = {self.system: [], self.than: []}
        for _ in range(_TIMING_ROUNDS):
            for label, seconds in durations.items():
                seconds.append(self._timed(label, serialized, dict(inputs)))
        return float(np.median(durations[self.system]) / np.median(durations[self.than]))

    def _timed(self, label: str, serialized: bytes, inputs: dict[str, np.ndarray]) -> float:
        process = self._processes[label]
        process.resume()
        try:
            return float(process.call("seconds", serialized, inputs))
        finally:
            process.pause()

    def close(self) -> None:
        """End the worker processes, for good."""
        for process in self._processes.values():
            process.close()

    def __enter__(self) -> Slower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


FILES = ("actual.npz", "expected.npz", "inputs.npz", "model.onnx", "model.onnx.data", "reproduce.py")
"""All that a reduction ever writes."""


def save(reduced: Reduced, folder: str | Path) -> list[str]:
    """See `Reduced.write`: all is written to a folder of its own inside, then moved, and what is stale is removed."""
    target = output_folder(folder)
    with tempfile.TemporaryDirectory(dir=target, prefix=".", suffix=".part") as temporary:
        _write(reduced, Path(temporary))
        written = sorted(file.name for file in Path(temporary).iterdir())
        for name in written:
            os.replace(Path(temporary) / name, target / name)
    for name in set(FILES) - set(written):
        (target / name).unlink(missing_ok=True)
    return written


def _write(reduced: Reduced, target: Path) -> None:
    predicate: Any = reduced.predicate
    network, inputs, expected = reduced.network, reduced.inputs, reduced.expected
    if isinstance(predicate, Wrong):
        shown = predicate.evidence(network, inputs)
        network, inputs, expected = shown.network, shown.inputs, shown.expected
        write_arrays(target / "actual.npz", shown.actual)
    stored, fed = _storable(network, inputs)
    stored.save(target / "model.onnx")
    write_arrays(target / "inputs.npz", fed)
    write_arrays(target / "expected.npz", expected)
    (target / "reproduce.py").write_text(_script(predicate, stored, fed, compared=bool(expected)), encoding="utf-8")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays under any names as an ``.npz`` file; element types that NumPy does not know as float32."""
    plain = {name: _plain(np.asarray(array)) for name, array in arrays.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in plain.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _plain(array: np.ndarray) -> np.ndarray:
    if array.dtype == object:
        return array.astype(str)
    return array.astype(np.float32) if array.dtype.kind == "V" or _foreign(array) else array


def _foreign(array: np.ndarray) -> bool:
    """Whether an element type is none of NumPy's own, which a file of NumPy's does not keep."""
    return array.dtype.type.__module__ != "numpy"


def _storable(network: Network, inputs: Mapping[str, np.ndarray]) -> tuple[Network, dict[str, np.ndarray]]:
    """The network with inputs that a file of NumPy's does not keep made weights of it."""
    foreign = {name: array for name, array in inputs.items() if _foreign(array) and array.dtype != object}
    if not foreign:
        return network, dict(inputs)
    changed = network.copy()
    graph = changed.graph
    for value in [v for v in graph.inputs if v.name in foreign]:
        value.const_value = ir.tensor(foreign[str(value.name)], name=value.name)
        graph.inputs.remove(value)
        graph.initializers[str(value.name)] = value
    return Network(changed.model, name=network.name), {n: a for n, a in inputs.items() if n not in foreign}


def _script(predicate: Any, network: Network, inputs: Mapping[str, np.ndarray], *, compared: bool) -> str:
    system = str(getattr(predicate, "system", ""))
    framework, options = _variant(system)
    description = str(getattr(predicate, "description", "what the predicate asked for"))
    graph, named = _graph(network, inputs), system or "the framework"
    if isinstance(predicate, Wrong) and predicate.gradients:
        return gradient_script(what=description, system=named, graph=graph)
    if framework == "onnxruntime":
        timed = isinstance(predicate, Slower)
        return onnxruntime_script(what=description, graph=graph, options=options, timed=timed, compared=compared)
    if isinstance(predicate, Wrong):
        return comparison_script(what=description, system=named, graph=graph, code=_code(predicate, network))
    return statement_script(what=description, system=named, graph=graph, failure=str(getattr(predicate, "failure", "")))


def _variant(system: str) -> tuple[str, Mapping[str, str]]:
    try:
        variant = Variant.parse(system)
    except DeepBenchError:  # the name of somebody's own adapter
        return system, {}
    return variant.framework, variant.options


def _code(predicate: Wrong, network: Network) -> str:
    """The framework's own code that the network was turned into, where the executor shows it."""
    return code_of(predicate.adapter.prepare(network))


def _graph(network: Network, inputs: Mapping[str, np.ndarray]) -> str:
    """The network as a person reads it: one line for each input, weight and node."""
    lines = [f"{name}: {a.dtype}{list(a.shape)}, input" for name, a in inputs.items()]
    lines += [f"{name}: {a.dtype}{list(a.shape)}, weight{_shown(a)}" for name, a in network.initializers.items()]
    for node in network.nodes:
        node_attributes = {name: value for name, value in attributes(node).items() if not isinstance(value, ir.Graph)}
        arguments = [("" if v is None else str(v.name)) for v in node.inputs]
        arguments += [f"{name}={_attribute(value)}" for name, value in node_attributes.items()]
        outputs = ", ".join(str(v.name) for v in node.outputs)
        lines.append(f"{outputs} = {operator_name(node)}({', '.join(arguments)})")
    lines.append(f"returned: {', '.join(spec.name for spec in network.outputs)}; opset {network.opset}")
    return "\n".join(lines)


def _shown(array: np.ndarray) -> str:
    return f" = {array.tolist()}" if array.size <= 8 and (is_float(array.dtype) or array.dtype.kind in "iub") else ""


def _attribute(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)


_LEVELS = {"off": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "all": "ENABLE_ALL"}
_DIFFERENCES = """
for name, right in expected.items():
    wide = [array.astype(np.float64) if array.dtype.kind in "fiub" else array for array in (actual[name], right)]
    print(f"output {name}: {actual[name].dtype}{list(actual[name].shape)}, expected {right.dtype}{list(right.shape)}")
    print("got:     ", actual[name].ravel()[:6])
    print("expected:", right.ravel()[:6])
    if right.dtype.kind in "fiub" and actual[name].shape == right.shape and right.size:
        print("largest difference:", np.max(np.abs(wide[0] - wide[1])), "of values up to", np.max(np.abs(wide[1])))
"""


def _head(description: str, graph: str, extra: str = "") -> str:
    text = "\n".join(f"#     {line}" for line in graph.splitlines())
    return f"# {description[0].upper()}{description[1:]}.\n#\n# model.onnx, fed with inputs.npz:\n#\n{text}\n#\n{extra}"


def onnxruntime_script(
    *,
    what: str,
    graph: str,
    options: Mapping[str, str],
    timed: bool,
    compared: bool,
) -> str:
    """Run the network in ONNX Runtime, and compare with what is expected or take the time."""
    settings = ["options = ort.SessionOptions()"]
    if "optimize" in options:
        settings.append(f"options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_{_LEVELS[options['optimize']]}")
    if "threads" in options:
        settings.append(f"options.intra_op_num_threads = {int(options['threads'])}")
    provider = "CUDAExecutionProvider" if options.get("device", "cpu") != "cpu" else "CPUExecutionProvider"
    lines = [
        "from pathlib import Path",
        *(["from time import perf_counter"] if timed else []),
        "",
        "import numpy as np",
        "import onnxruntime as ort",
        "",
        "here = Path(__file__).parent",
        'inputs = dict(np.load(here / "inputs.npz"))',
        *settings,
        f'session = ort.InferenceSession(here / "model.onnx", options, providers=["{provider}"])',
        "actual = dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))",
    ]
    tail = "\n"
    if timed:
        tail = (
            "\ntimes = []\nfor _ in range(100):\n    start = perf_counter()\n    session.run(None, inputs)\n"
            '    times.append(perf_counter() - start)\nprint("median time of a call:", np.median(times), "s")\n'
        )
    elif compared:
        lines.append('expected = dict(np.load(here / "expected.npz"))  # in float64, rounded once')
        tail = _DIFFERENCES
    return _head(what, graph) + "\n".join(lines) + tail


def comparison_script(*, what: str, system: str, graph: str, code: str) -> str:
    """Compare what a framework gave with what is expected."""
    note = f"# actual.npz is what {system} gave for this graph, expected.npz what its float64 evaluation gives.\n"
    if code:
        note += f"# The graph in {system}:\n#\n" + "\n".join(f"#     {line}" for line in code.splitlines()) + "\n#\n"
    return (
        _head(what, graph, note)
        + "from pathlib import Path\n\nimport numpy as np\n\nhere = Path(__file__).parent\n"
        + 'actual = dict(np.load(here / "actual.npz"))\nexpected = dict(np.load(here / "expected.npz"))\n'
        + _DIFFERENCES.lstrip("\n")
    )


def statement_script(*, what: str, system: str, graph: str, failure: str) -> str:
    """Show the network, for something that only the framework itself can show."""
    comment = "\n".join(f"# {line}" for line in failure.splitlines())
    note = f"# To see it, compute this in {system}." + (f" It says:\n#\n{comment}\n#\n" if comment else "\n")
    return (
        _head(what, graph, note)
        + "from pathlib import Path\n\nimport numpy as np\nimport onnx\n\nhere = Path(__file__).parent\n"
        + 'print(onnx.printer.to_text(onnx.load(here / "model.onnx").graph))\n'
        + 'for name, array in np.load(here / "inputs.npz").items():\n    print(f"{name} = {array!r}")\n'
    )


def gradient_script(*, what: str, system: str, graph: str) -> str:
    """Compare gradients that a framework gave with those that are expected."""
    note = (
        "# The loss is the sum of weight * output over the elements of the floating-point outputs.\n"
        "# actual.npz holds its gradients with respect to inputs and weights as "
        f"{system} differentiates,\n# expected.npz those of a float64 evaluation; "
        "inputs.npz has the weights of the loss too.\n"
    )
    return (
        _head(what, graph, note)
        + "from pathlib import Path\n\nimport numpy as np\n\nhere = Path(__file__).parent\n"
        + 'actual = dict(np.load(here / "actual.npz"))\nexpected = dict(np.load(here / "expected.npz"))\n'
        + _DIFFERENCES.lstrip("\n")
    )
