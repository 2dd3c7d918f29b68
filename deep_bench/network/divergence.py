"""Where a framework first leaves what rounding can explain."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.check.information import nothing_in
from deep_bench.check.isolate import draws_at_random
from deep_bench.check.nodes import judge_nodes
from deep_bench.check.replay import form_of
from deep_bench.check.truth import Effort, Truth, establish
from deep_bench.check.verdict import NodeVerdict
from deep_bench.framework import Adapter
from deep_bench.graph import Network, operator_name
from deep_bench.graph.node import subgraphs
from deep_bench.measure.progress import Bars
from deep_bench.network.apart import Apart
from deep_bench.network.divergence_carried import Carried, CarriedValues
from deep_bench.network.divergence_information import empty_inputs, first_nan
from deep_bench.network.problem import Problem, make_problem, suitable
from deep_bench.network.suspect import Suspect, as_adapter, called, converts, quiet
from deep_bench.variant import Variant

_PARTS = 3
ACCUSED = ("wrong", "reduced precision")
"""What is said of a node that rounding in the network's own element types cannot explain."""
UNJUDGED = ("no information", "not replayed", "not compared", "fused")
"""What is said of a node that was not compared with anything, or whose results tell nothing."""


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
    carried: Carried

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
        from deep_bench.network.divergence_plot import plot_divergence

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
    with quiet(), closing(bars), _started(on, in_process=in_process) as adapter:
        if gradients is not None and (adapter.differentiates or problem.network.kernels):
            divergence = _backward(problem, on, adapter, gradients, effort)
        else:
            divergence = _forward(problem, on, adapter, gradients, effort, bars)
    return replace(divergence, seconds=time.perf_counter() - start)


@contextmanager
def _started(on: str | Variant | Adapter[Any], *, in_process: bool) -> Iterator[Adapter[Any]]:
    """The framework, in a process of its own; but the reference, which this process runs anyway."""
    variant = Variant.parse(on) if isinstance(on, str) else on
    if in_process or isinstance(variant, Adapter) or variant.framework == "reference":
        yield as_adapter(variant)
        return
    with Apart(variant) as adapter:
        yield adapter


def _backward(
    problem: Problem, on: str | Variant | Adapter[Any], adapter: Adapter[Any], loss: str, effort: Effort
) -> Divergence:
    """The nodes' gradients, by the framework's own differentiation."""
    from deep_bench.network.divergence_backward import backward_nodes

    nodes, findings, interrupted = backward_nodes(problem, adapter, loss, effort, cast=converts(on))
    return Divergence(problem.network.name, called(on), nodes, findings, True, interrupted)


def _forward(
    problem: Problem,
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
    suspect = Suspect(adapter, as_given, problem.inputs.arrays, cast=converts(on))
    suspect.outputs()  # what cannot run as a whole is said before minutes are spent on its nodes
    nodes, findings, interrupted = _nodes(truth, suspect, bars)
    return Divergence(posed.name, called(on), nodes, findings, interrupted=interrupted)


def _derived(problem: Problem, loss: str) -> Network:
    from deep_bench.network.gradient import differentiate

    return differentiate(problem.network, loss)


def _nodes(truth: Truth, suspect: Suspect, bars: Bars) -> tuple[list[NodePrecision], Sequence[str], bool]:
    form = form_of(truth.network, suspect.upgrades)
    bars.advance()
    bars.at("each node alone")
    verdicts: dict[str, NodeVerdict] = {}
    kinds = {
        str(v.name): _kind(node, v) for node in form.nodes if node.op_type != "Constant" for v in node.outputs if v.name
    }
    refused: dict[str, str] = {}
    carried: Mapping[str, Carried] = {}
    findings: list[str] = []
    interrupted = False
    try:
        replays = judge_nodes(truth, suspect, told=lambda v: verdicts.update({v.name: v}))
        refused = {str(r.node.name): r.refused for r in replays.refusals}
        findings += replays.findings
        bars.advance()
        bars.at("end to end")
        carried = CarriedValues(truth, suspect, kinds).compared()
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
    return [_informed(node, outputs[node.name], truth) for node in nodes], findings, interrupted


def _informed(node: NodePrecision, outputs: Sequence[str], truth: Truth) -> NodePrecision:
    """The same, unless the node is only right for want of anything that could be wrong."""
    nothing = nothing_in(truth.values[name] for name in outputs if name in truth.values)
    if node.word != "right" or not nothing:
        return node
    return replace(node, word="no information", bits=float("nan"), reason=f"what it should give is {nothing}")


def _kind(node: ir.Node, value: ir.Value) -> str:
    """Which operators give and read a value."""
    return f"{operator_name(node)} to {', '.join(sorted({operator_name(use.node) for use in value.uses()}))}"


def _node(
    node: ir.Node, verdict: NodeVerdict | None, refused: str, carried: Mapping[str, Carried], missing: str
) -> NodePrecision:
    """What is said of a node; ``missing`` says why what is not there is missing, if there is one reason for all."""
    values = [carried[str(v.name)] for v in node.outputs if v.name in carried]
    inside = missing or "its values are inside a subgraph, or no tensors"
    worst = worst_of(values) or Carried("not compared", reason=inside)
    if verdict is not None:
        return NodePrecision(
            verdict.name, verdict.operator, verdict.word, verdict.bits, verdict.format, verdict.reason, worst
        )
    reason = f"it does not run alone: {refused}" if refused else missing or _why_not_replayed(node)
    return NodePrecision(str(node.name), operator_name(node), "not replayed", float("nan"), "", reason, worst)


def worst_of(found: Sequence[Carried]) -> Carried | None:
    """The one that says most against a framework, if there is any."""
    return min(found, key=_order, default=None)


def _order(carried: Carried) -> tuple[int, float]:
    words = ("wrong", "reduced precision", "cannot tell", "no information", "right", "fused", "not compared")
    return words.index(carried.word), carried.bits


def _why_not_replayed(node: ir.Node) -> str:
    if subgraphs(node):
        return "its subgraphs' nodes are replayed instead"
    if draws_at_random(node):
        return "it draws random numbers"
    return "it has inputs or outputs that are no tensors, or was not executed"
