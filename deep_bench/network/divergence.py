"""``diverge``: where a framework first leaves what rounding can explain.

The same for gradients that a framework finds by its own differentiation. Beside each node alone stands how precise the
framework's own intermediate values are, with all the errors that were carried to them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.check.arithmetic import Recall
from deep_bench.check.judge import EndToEnd, assess_whole, judge_nodes
from deep_bench.check.oracle import SAMPLES, Effort, Truth, establish, narrowed
from deep_bench.check.replay import SUFFIX, form_of, isolate, replayable
from deep_bench.check.special import DecisionTrials, nothing_in, open_decisions
from deep_bench.check.subject import InProcessSubject
from deep_bench.check.verdict import NodeVerdict
from deep_bench.errors import DeepBenchError
from deep_bench.framework import Adapter
from deep_bench.graph import Network, operator_name
from deep_bench.graph.node import operator_facts, subgraphs
from deep_bench.graph.shapes import Knowledge
from deep_bench.measure.progress import Bars
from deep_bench.network.adapter_process import ProcessAdapter, as_adapter, called, converts, failing
from deep_bench.network.gradient import gradient_name
from deep_bench.network.gradient.pullback import Pullback, pull_back
from deep_bench.network.problem import NetworkProblem, make_problem
from deep_bench.study.judging import quiet, suitable
from deep_bench.tensor import as_float, is_float, is_inexact
from deep_bench.variant import Variant

_PARTS = 3
ACCUSED = ("wrong", "reduced precision")
"""What is said of a node that rounding in the network's own element types cannot explain."""


UNJUDGED = ("no information", "not replayed", "not compared", "fused")
"""What is said of a node that was not compared with anything, or whose results tell nothing."""


@dataclass(frozen=True, slots=True)
class CarriedPrecision:
    """How a value of the network compares with the oracle's, end to end.

    Args:
        word: *right* (rounding of all that came before explains it), *cannot tell*, *wrong*, *no information* (rounding
            drowns it), *fused* (it cannot be had without changing what the framework computes) or *not compared*.
        bits: Its significant bits, by the errors that rounding is expected to carry there; NaN where not compared.
        reason: Why, in one sentence; empty where it is simply right.
    """

    word: str
    bits: float = float("nan")
    reason: str = ""

    @classmethod
    def of(cls, whole: EndToEnd, nothing: str = "") -> CarriedPrecision:
        """What a comparison of one value says, and why what is expected tells nothing, if so."""
        (output,) = whole.outputs
        if nothing and whole.word == "right":
            return cls("no information", reason=f"what it should be is {nothing}")
        if whole.clear and whole.information:
            return cls("no information", output.bits, "rounding alone changes it by as much as its own spread")
        return cls(whole.word, output.bits, output.reason)


@dataclass(frozen=True, slots=True)
class NodePrecision:
    """One node of the network, alone and in its place.

    Args:
        name: The node's.
        operator: Its ONNX operator.
        word: What its replay says, alone on the oracle's inputs; *not replayed* if it was not; *no information* if what is
            expected is empty or not finite.
        bits: Its significant bits then; 53 for exact results without an error, NaN if not replayed.
        format: The element type that it works in; empty where nothing rounds.
        reason: Why, in one sentence.
        carried: What is said of its outputs in the framework's own run of the whole network, the worst of them.
    """

    name: str
    operator: str
    word: str
    bits: float
    format: str
    reason: str
    carried: CarriedPrecision

    @property
    def accused(self) -> bool:
        """Whether rounding cannot explain what it computes alone."""
        return self.word in ACCUSED

    @property
    def diverged(self) -> bool:
        """Whether rounding cannot explain its values in the run of the whole network."""
        return self.carried.word in ACCUSED


@dataclass(frozen=True)
class Divergence:
    """The precision of a framework along a network.

    Args:
        network: What was run.
        system: The framework with its options.
        nodes: In the order in which they are computed; the backward pass from the loss to the inputs.
        findings: Remarks that do not decide.
        backward: Whether the nodes' gradients are meant, by the framework's own differentiation.
        interrupted: Whether Ctrl-C ended it: nodes that were not reached are *not replayed* and *not compared*.
        seconds: What all of it took.
    """

    network: str
    system: str
    nodes: Sequence[NodePrecision]
    findings: Sequence[str] = ()
    backward: bool = False
    interrupted: bool = False
    seconds: float = field(default=0.0, compare=False)

    @property
    def first(self) -> NodePrecision | None:
        """The first node that, alone on the oracle's inputs, gives what rounding cannot explain."""
        return next((n for n in self.nodes if n.accused), None)

    @property
    def first_carried(self) -> NodePrecision | None:
        """The first node whose values in the framework's run of the whole network rounding cannot explain."""
        return next((n for n in self.nodes if n.diverged), None)

    @property
    def ok(self) -> bool:
        """Whether rounding explains everything that could be compared."""
        return self.first is None and self.first_carried is None

    @property
    def judged(self) -> bool:
        """Whether there was anything to judge: some node's values, alone or end to end."""
        return any(word not in UNJUDGED for n in self.nodes for word in (n.word, n.carried.word))

    def table(self, *, every: bool = False) -> str:
        """The nodes as text: those that matter, or every one."""
        from deep_bench.network.divergence_report import as_text

        return as_text(self, every=every)

    def plot(self, path: str | Path) -> Path:
        """Precision in bits along the network, alone and end to end, written as a PNG."""
        from deep_bench.network.plots import plot_divergence

        return plot_divergence(self, Path(path))

    def as_json(self) -> dict[str, Any]:
        """All of it in plain types; NaN becomes ``None``."""
        from deep_bench.network.divergence_report import as_json

        return as_json(self)

    def __str__(self) -> str:
        return self.table()


def diverge(
    network: str | Path | Network,
    on: str | Variant | Adapter[Any],
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    *,
    gradients: str | None = None,
    effort: Effort = "quick",
    sizes: Mapping[str, int] | None = None,
    batch: int | None = None,
    seed: int = 0,
    in_process: bool = False,
    progress: bool = True,
) -> Divergence:
    """Find where a framework's error comes from.

    Every node is replayed alone on the oracle's inputs: is the operator wrong? And the framework's own intermediate values
    are compared with what rounding can have carried there: where does error accumulate? A value is left out, as *fused*, if
    asking for it changes what the network returns.

    Args:
        network: A network, a file, or the name of one that ships.
        on: The framework, as a variant or an adapter.
        inputs: An ``.npz`` file or arrays by name; by default they are drawn.
        gradients: Name of a loss, one of the network's values, whose gradients are examined. With a framework that
            differentiates on its own, or a network with kernels of the user's, each node's gradient is replayed, from the
            loss back; with others the nodes of the network that `differentiate` derives.
        effort: ``"quick"``, or ``"full"`` for four times as many evaluations with rounding errors.
        sizes, batch, seed: As for `run`.
        in_process: Run the framework in this process, for a debugger; else it has one of its own, and may crash. An adapter
            that is given runs in this process anyway.
        progress: False shows no bar on a terminal.

    Returns:
        What was found. Ctrl-C ends it early; the result then holds the nodes that were replayed.

    Raises:
        UnsupportedOperator: The reference or the framework cannot run a node.
        InvalidNetwork, InvalidInput, InvalidArgument: As for `run`.
        WorkerError: The framework cannot run the network on these inputs, or its process ended.

    Example:
        >>> import deep_bench as db
        >>> found = db.network.diverge("digits-cnn", "reference")
        >>> found.first is None, found.first_carried is None
        (True, True)
    """
    start = time.perf_counter()
    problem = make_problem(network, inputs=inputs, sizes=sizes, batch=batch, seed=seed)
    bars = Bars(progress)
    bars.phase("diverge", _PARTS, "parts")
    with quiet(), closing(bars), _start(on, in_process=in_process) as adapter:
        if gradients is not None and (adapter.differentiates or problem.network.kernels):
            divergence = _backward(problem, on, adapter, gradients, effort)
        else:
            divergence = _forward(problem, on, adapter, gradients, effort, bars)
    return replace(divergence, seconds=time.perf_counter() - start)


@contextmanager
def _start(on: str | Variant | Adapter[Any], *, in_process: bool) -> Iterator[Adapter[Any]]:
    """The framework, in a process of its own; but the reference, which this process runs anyway."""
    variant = Variant.parse(on) if isinstance(on, str) else on
    if in_process or isinstance(variant, Adapter) or variant.framework == "reference":
        yield as_adapter(variant)
        return
    with ProcessAdapter(variant) as adapter:
        yield adapter


def _backward(
    problem: NetworkProblem, on: str | Variant | Adapter[Any], adapter: Adapter[Any], loss: str, effort: Effort
) -> Divergence:
    """The nodes' gradients, by the framework's own differentiation."""

    nodes, findings, interrupted = backward_nodes(problem, adapter, loss, effort, cast=converts(on))
    return Divergence(problem.network.name, called(on), nodes, findings, True, interrupted)


def _forward(
    problem: NetworkProblem,
    on: str | Variant | Adapter[Any],
    adapter: Adapter[Any],
    loss: str | None,
    effort: Effort,
    bars: Bars,
) -> Divergence:
    """The nodes of the network, or of the one that gives its gradients."""
    posed = problem.network if loss is None else _derived(problem, loss)
    bars.at("reference")
    with suitable(problem.source.name):
        truth = establish(posed, problem.inputs.arrays, effort)
    as_given = posed if adapter.upgrades or loss is not None else problem.source
    with failing(adapter.name):
        subject = InProcessSubject(adapter, as_given, problem.inputs.arrays, cast=converts(on))
        subject.outputs()  # what cannot run as a whole is said before minutes are spent on its nodes
    nodes, findings, interrupted = _nodes(truth, subject, bars)
    return Divergence(posed.name, called(on), nodes, findings, interrupted=interrupted)


def _derived(problem: NetworkProblem, loss: str) -> Network:
    from deep_bench.network.gradient import differentiate

    return differentiate(problem.network, loss)


def _nodes(truth: Truth, subject: InProcessSubject, bars: Bars) -> tuple[list[NodePrecision], Sequence[str], bool]:
    form = form_of(truth.network, subject.upgrades)
    bars.advance()
    bars.at("each node alone")
    verdicts: dict[str, NodeVerdict] = {}
    kinds = {
        str(v.name): _kind(node, v) for node in form.nodes if node.op_type != "Constant" for v in node.outputs if v.name
    }
    refused: dict[str, str] = {}
    carried: Mapping[str, CarriedPrecision] = {}
    findings: list[str] = []
    interrupted = False
    try:
        replays = judge_nodes(truth, subject, told=lambda v: verdicts.update({v.name: v}))
        refused = {str(r.node.name): r.refused for r in replays.refusals}
        findings += replays.findings
        bars.advance()
        bars.at("end to end")
        carried = CarriedValues(truth, subject, kinds).compared()
    except KeyboardInterrupt:
        if not verdicts:
            raise
        interrupted = True
    outputs = {str(node.name): [str(v.name) for v in node.outputs] for node in form.all_nodes()}
    findings += [*empty_inputs(truth.inputs), *first_nan(form, truth.inputs, truth.values)]
    missing = "interrupted before it was reached" if interrupted else ""
    nodes = [
        _node(node, verdicts.get(str(node.name)), refused.get(str(node.name), ""), carried, missing)
        for node in form.all_nodes()
        if node.op_type != "Constant"
    ]
    return [_unless_uninformed(node, outputs[node.name], truth) for node in nodes], findings, interrupted


def _unless_uninformed(node: NodePrecision, outputs: Sequence[str], truth: Truth) -> NodePrecision:
    """The same, unless the node is only right for want of anything that could be wrong."""
    nothing = nothing_in(truth.values[name] for name in outputs if name in truth.values)
    if node.word != "right" or not nothing:
        return node
    return replace(node, word="no information", bits=float("nan"), reason=f"what it should give is {nothing}")


def _kind(node: ir.Node, value: ir.Value) -> str:
    """Which operators give and read a value."""
    return f"{operator_name(node)} to {', '.join(sorted({operator_name(use.node) for use in value.uses()}))}"


def _node(
    node: ir.Node, verdict: NodeVerdict | None, refused: str, carried: Mapping[str, CarriedPrecision], missing: str
) -> NodePrecision:
    """What is said of a node; ``missing`` says why what is not there is missing, if there is one reason for all."""
    values = [carried[str(v.name)] for v in node.outputs if v.name in carried]
    inside = missing or "its values are inside a subgraph, or no tensors"
    worst = worst_of(values) or CarriedPrecision("not compared", reason=inside)
    if verdict is not None:
        return NodePrecision(
            verdict.name, verdict.operator, verdict.word, verdict.bits, verdict.format, verdict.reason, worst
        )
    reason = f"it does not run alone: {refused}" if refused else missing or _why_not_replayed(node)
    return NodePrecision(str(node.name), operator_name(node), "not replayed", float("nan"), "", reason, worst)


def worst_of(found: Sequence[CarriedPrecision]) -> CarriedPrecision | None:
    """The one that says most against a framework, if there is any."""
    return min(found, key=_order, default=None)


def _order(carried: CarriedPrecision) -> tuple[int, float]:
    words = ("wrong", "reduced precision", "cannot tell", "no information", "right", "fused", "not compared")
    return words.index(carried.word), carried.bits


def _why_not_replayed(node: ir.Node) -> str:
    if subgraphs(node):
        return "its subgraphs' nodes are replayed instead"
    if operator_facts(node).random:
        return "it draws random numbers"
    return "it has inputs or outputs that are no tensors, or was not executed"


def backward_nodes(
    problem: NetworkProblem, adapter: Adapter[Any], loss: str, effort: Effort, *, cast: bool
) -> tuple[list[NodePrecision], list[str], bool]:
    """What is said of each node's gradient, from the loss back.

    Args:
        problem: The network with its inputs.
        adapter: A framework that differentiates on its own.
        loss: Name of a value of the network with one element.
        effort: As for `diverge`.
        cast: Whether gradients are brought to the element type of what they are of.

    Returns:
        The nodes; where NaN came from, and what is empty; and whether Ctrl-C ended it: nodes after that are *not replayed*.
    """
    network = problem.network.upgraded()
    inputs = problem.inputs.arrays
    inner = _float_values(network)
    wrt = [name for name in inner if not network.graph.initializers.get(name) or name in network.parameters]
    with suitable(problem.source.name):
        truth = Pullback(network, inputs, wrt, loss).truth(effort)
    # what is said of the gradient of each parameter and input, in the framework's own run
    posed = Pullback(network, inputs, _leaves(network), loss)
    actual = posed.gradients(adapter, cast=cast)
    carried = {}
    for name in posed.wrt:
        key = gradient_name(posed.loss, name)
        samples = [{key: s[key]} for s in truth.samples]
        whole = assess_whole(truth, {key: actual[key]}, {key: truth.outputs[key]}, samples)
        carried[name] = CarriedPrecision.of(whole, nothing_in([np.asarray(truth.outputs[key])]))
    replayable_ids = set(map(id, replayable(network, truth.values)))
    nodes = [node for node in reversed(network.nodes) if node.op_type != "Constant"]
    precisions: list[NodePrecision] = []
    try:
        for node in nodes:
            replayed = id(node) in replayable_ids
            precisions.append(
                _node_gradient(node, network, adapter, truth, loss, carried, cast) if replayed else _left_out(node, carried)
            )
    except KeyboardInterrupt:
        if not precisions:
            raise
    late = [_left_out(node, carried, "interrupted before it was reached") for node in nodes[len(precisions) :]]
    findings = [*empty_inputs(inputs), *first_nan(truth.network.upgraded(), inputs, truth.values)]
    return [*precisions, *late], findings, bool(late)


def _float_values(network: Network) -> list[str]:
    """The floating-point values of the outermost graph that nodes read or write."""
    values = [*network.graph.inputs, *network.graph.initializers.values(), *(v for n in network.nodes for v in n.outputs)]
    knowledge = Knowledge(network)
    names = []
    for value in values:
        dtype = knowledge.dtype(value) if value.name else None
        if dtype is not None and is_float(dtype):
            names.append(str(value.name))
    return names


def _leaves(network: Network) -> list[str]:
    """The floating-point parameters and inputs."""
    fed = {spec.name for spec in network.inputs} | set(network.parameters)
    return [n for n in _float_values(network) if n in fed]


def _node_gradient(
    node: ir.Node,
    network: Network,
    adapter: Adapter[Any],
    truth: Truth,
    loss: str,
    carried: Mapping[str, CarriedPrecision],
    cast: bool,
) -> NodePrecision:
    """One node's gradient, alone."""
    name, operator = str(node.name), operator_name(node)
    unknown = ("not replayed", float("nan"), "")
    node_carried = _gradients_read(node, carried)
    gradients = {
        str(v.name): narrowed(np.asarray(truth.outputs[key]), truth.formats.get(str(v.name)))
        for v in node.outputs
        if (key := gradient_name(loss, str(v.name))) in truth.outputs
    }
    if not any(np.any(g) for g in gradients.values()):
        return NodePrecision(name, operator, *unknown, "the loss does not depend on it", node_carried)
    try:
        alone = isolate(network, [node], truth.values)
        posed = pull_back(alone.network, alone.inputs, gradients)
        if not posed.wrt:
            return NodePrecision(
                name, operator, *unknown, "it has no floating-point input to differentiate by", node_carried
            )
        node_truth = posed.truth()
    except DeepBenchError as error:
        return NodePrecision(name, operator, *unknown, f"its gradient has no oracle alone: {error.came}", node_carried)
    try:
        whole = posed.judged(node_truth, adapter, cast=cast)
    except Exception as error:  # a framework may fail in any way on a node alone
        reason = f"its gradient does not run alone: {next(iter(str(error).splitlines()), type(error).__name__)[:300]}"
        return NodePrecision(name, operator, *unknown, reason, node_carried)
    nothing = nothing_in(np.asarray(y) for y in node_truth.outputs.values())
    if nothing and whole.word == "right":
        return NodePrecision(
            name, operator, "no information", float("nan"), "", f"what it should give is {nothing}", node_carried
        )
    return NodePrecision(
        name, operator, whole.word, whole.bits, whole.outputs[0].format, whole.reason.replace(SUFFIX, ""), node_carried
    )


def _left_out(
    node: ir.Node,
    carried: Mapping[str, CarriedPrecision],
    reason: str = "it holds subgraphs, draws random numbers, or has inputs or outputs that are no tensors",
) -> NodePrecision:
    return NodePrecision(
        str(node.name), operator_name(node), "not replayed", float("nan"), "", reason, _gradients_read(node, carried)
    )


def _gradients_read(node: ir.Node, carried: Mapping[str, CarriedPrecision]) -> CarriedPrecision:
    """What is said of the gradients of the parameters and network inputs that a node reads, the worst of them."""
    verdicts = [carried[str(v.name)] for v in node.inputs if v is not None and v.name in carried]
    return worst_of(verdicts) or CarriedPrecision(
        "not compared", reason="it reads no parameter, and no input of the network"
    )


_CHUNK_BYTES = 512 * 2**20
_MOST_ASKS = 128
_MOST_ASKS_OF_A_KIND = 12


@dataclass(eq=False)
class CarriedValues:
    """Asks a framework for the values inside its network, and compares them.

    Values are asked for in chunks, as further outputs. A chunk counts only if the network's own outputs come out bitwise
    as they do without it; if not, its values are asked for by kind (which operators give and read them), and the kinds that
    change something by halves, so that little more than the values that change something is left out.

    Args:
        truth: Of the network.
        subject: The framework.
        kinds: Names of values of the outermost graph, in order, each with its kind.
    """

    truth: Truth
    subject: InProcessSubject
    kinds: Mapping[str, str]
    asks: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._plain, again = self.subject.outputs(), self.subject.outputs()
        self._repeats = all(_same_bits(y, again[n]) for n, y in self._plain.items())

    @property
    def names(self) -> Sequence[str]:
        """The names of the values."""
        return list(self.kinds)

    def compared(self) -> dict[str, CarriedPrecision]:
        """What is said of each value."""
        if self.truth.random:
            return dict.fromkeys(self.names, CarriedPrecision("not compared", reason="the network draws random numbers"))
        verdicts = self._round({}, {})
        if all(c.word not in ("wrong", "cannot tell") for c in verdicts.values()):
            return verdicts
        decisions = open_decisions(self.truth)
        if not decisions:
            return verdicts
        return self._round(decisions, self._flipped(decisions))

    def _flipped(self, decisions: Mapping[str, DecisionTrials]) -> dict[str, np.ndarray]:
        """The framework's own decisions where they differ from the oracle's within the margin of rounding."""
        actual, _ = self._given([n for n in decisions if n in self.names])
        chosen = {n: y for n, y in actual.items() if n in decisions and not np.array_equal(y, decisions[n].oracle)}
        admitted = {n: y for n, y in chosen.items() if decisions[n].admits(y)}
        return {n: y.astype(np.float64) if is_float(y.dtype) else y for n, y in admitted.items()}

    def _round(
        self, decisions: Mapping[str, DecisionTrials], imposed: Mapping[str, np.ndarray]
    ) -> dict[str, CarriedPrecision]:
        verdicts: dict[str, CarriedPrecision] = {}
        for chunk in self._chunks():
            actual, missing = self._given(chunk)
            oracle, samples = self._evaluations(frozenset(actual), imposed)
            for name in chunk:
                if name not in actual or name not in oracle:
                    verdicts[name] = missing.get(
                        name, CarriedPrecision("not compared", reason="the oracle has no such value")
                    )
                else:
                    evaluated = [_restored(s[name], oracle[name]) for s in samples]
                    verdicts[name] = self._one(name, actual[name], oracle[name], evaluated, decisions)
        return verdicts

    def _one(
        self, name: str, actual: Any, oracle: Any, samples: Sequence[Any], decisions: Mapping[str, DecisionTrials]
    ) -> CarriedPrecision:
        if self.subject.cast:
            actual = as_float(actual, self.truth.formats.get(name, np.asarray(oracle).dtype))
        whole = assess_whole(self.truth, {name: actual}, {name: oracle}, [{name: s} for s in samples], decisions)
        return CarriedPrecision.of(whole, nothing_in([np.asarray(oracle)]))

    def _evaluations(
        self, names: frozenset[str], imposed: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The oracle's values, and those of evaluations with rounding errors, as `_stored` keeps them."""
        recall = Recall()
        oracle: dict[str, Any] = {}
        self.truth.evaluate(self.truth.arithmetic(imposed=imposed), _Collector(names, oracle, {}))
        samples: list[dict[str, Any]] = []
        for k in range(SAMPLES[self.truth.effort] if names else 0):
            samples.append({})
            arithmetic = self.truth.arithmetic(np.random.default_rng([6, k]), recall=recall, imposed=imposed)
            self.truth.evaluate(arithmetic, _Collector(names, samples[-1], oracle))
        return oracle, samples

    def _chunks(self) -> Iterator[list[str]]:
        """The names, in chunks whose evaluations fit into a bounded memory."""
        bytes_each = 16 + 4 * SAMPLES[self.truth.effort]
        chunk: list[str] = []
        used = 0
        for name in self.names:
            size = self.truth.values[name].size * bytes_each if name in self.truth.values else 0
            if chunk and used + size > _CHUNK_BYTES:
                yield chunk
                chunk, used = [], 0
            chunk.append(name)
            used += size
        if chunk:
            yield chunk

    def _given(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, CarriedPrecision]]:
        """The values that the framework gives, and why it does not give the others."""
        plain_values = {n: self._plain[n] for n in names if n in self._plain}
        remaining = [n for n in names if n not in plain_values]
        if not remaining:
            return plain_values, {}
        if not self._repeats:
            reason = "its outputs differ from run to run, so that nobody sees whether asking for more changes them"
            return plain_values, dict.fromkeys(remaining, CarriedPrecision("not compared", reason=reason))
        values, missing = self._asked(remaining)
        return plain_values | values, missing

    def _asked(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, CarriedPrecision]]:
        """All at once if that changes nothing, else kind by kind."""
        values, reason = self._ask(names)
        missing: dict[str, CarriedPrecision] = {}
        if not reason:
            return values, missing
        kinds: dict[str, list[str]] = {}
        for name in names:
            kinds.setdefault(self.kinds.get(name, ""), []).append(name)
        for members in kinds.values():
            self._halve(members, values, missing, self.asks + _MOST_ASKS_OF_A_KIND)
        return values, missing

    def _halve(self, names: Sequence[str], values: dict[str, Any], missing: dict[str, CarriedPrecision], limit: int) -> None:
        """Ask for values of one kind, then for the halves of what changes something."""
        if self.asks >= min(limit, _MOST_ASKS):
            reason = "others of its kind change what is computed when they are asked for, and not each of them was tried"
            missing.update(dict.fromkeys(names, CarriedPrecision("fused", reason=reason)))
            return
        new_values, reason = self._ask(names)
        values.update(new_values)
        if reason and len(names) == 1:
            missing[names[0]] = CarriedPrecision("fused", reason=reason)
        elif reason:
            middle = len(names) // 2
            self._halve(names[:middle], values, missing, limit)
            self._halve(names[middle:], values, missing, limit)

    def _ask(self, names: Sequence[str]) -> tuple[dict[str, Any], str]:
        """The values, or why they do not count."""
        self.asks += 1
        try:
            values = self.subject.values([*self._plain, *names])
        except Exception as error:  # a framework may fail in any way when asked for values inside its network
            return {}, f"asking for it fails: {next(iter(str(error).splitlines()), type(error).__name__)[:200]}"
        changed = [n for n, y in self._plain.items() if not _same_bits(values[n], y)]
        if changed:
            return {}, f"asking for it changes the output {changed[0]!r}"
        return {n: values[n] for n in names}, ""


def _same_bits(a: Any, b: Any) -> bool:
    """Whether two results have the same bits."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same_bits, a, b))
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return np.array_equal(a, b) if a.dtype == object else a.tobytes() == b.tobytes()


@dataclass(frozen=True, slots=True)
class _Collector:
    """Keeps the named values of an evaluation, as what they differ by from the oracle's if there are any."""

    names: frozenset[str]
    found: dict[str, Any]
    oracle: dict[str, Any]

    def __call__(self, step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:  # noqa: ARG002 (an Observer)
        for name, y in zip(step.outputs, results, strict=False):
            if name in self.names and isinstance(y, np.ndarray | np.generic):
                self.found[name] = _stored(np.asarray(y), self.oracle.get(name))


@dataclass(frozen=True, slots=True, eq=False)
class _Deviation:
    """How far an evaluation lies from the oracle's: a size of an error, for which float32 is precise enough."""

    difference: np.ndarray


def _stored(y: np.ndarray, oracle: np.ndarray | None) -> np.ndarray | _Deviation:
    if oracle is None or y.dtype != np.float64 or y.shape != oracle.shape:
        return y
    with np.errstate(all="ignore"):
        difference = y - oracle
        narrow = difference.astype(np.float32)
    return _Deviation(narrow) if np.isfinite(narrow).all() else y


def _restored(stored: np.ndarray | _Deviation, oracle: np.ndarray) -> np.ndarray:
    return oracle + stored.difference if isinstance(stored, _Deviation) else stored


def first_nan(network: Network, inputs: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> list[str]:
    """Where NaN first appears, in one sentence; none if it does not appear.

    Args:
        network: Its nodes are looked through in order.
        inputs: What it is fed.
        values: The oracle's values by name.
    """
    for kind, arrays in (("input", inputs), ("constant", network.initializers)):
        for name, array in arrays.items():
            if count := _nans(array):
                return [f"NaN is in the {kind} {name!r} already: {count} of {array.size} elements"]
    for node in network.all_nodes():
        if any(_nans(values[str(v.name)]) for v in node.inputs if v is not None and v.name in values):
            continue
        for name in (str(v.name) for v in node.outputs if v.name in values):
            if count := _nans(values[name]):
                return [_first_nan_text(node, name, count, values[name].size)]
    return []


def empty_inputs(inputs: Mapping[str, np.ndarray]) -> list[str]:
    """A sentence for each input without an element."""
    return [f"the input {name!r} is empty: its shape is {list(a.shape)}" for name, a in inputs.items() if not a.size]


def _first_nan_text(node: ir.Node, name: str, count: int, size: int) -> str:
    where = f"the output {name!r} of node {str(node.name)!r} ({operator_name(node)})"
    return f"NaN first appears in {where}: {count} of {size} elements, from inputs without NaN"


def _nans(array: np.ndarray) -> int:
    return int(np.isnan(array).sum()) if is_inexact(array.dtype) else 0
