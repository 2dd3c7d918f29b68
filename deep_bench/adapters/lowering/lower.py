"""``lower``: a network as a plan of native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from deep_bench.adapters.lowering.analyse import Analysis
from deep_bench.adapters.lowering.build import Builder
from deep_bench.adapters.lowering.draft import Draft, DraftStep
from deep_bench.adapters.lowering.facts import Fact, constant_fact, container_type
from deep_bench.adapters.lowering.plan import Lowered, Site
from deep_bench.errors import InvalidArgument
from deep_bench.framework import Mode
from deep_bench.graph.network import Network
from deep_bench.graph.upgrade import upgrade
from deep_bench.graph.upgrade.edit import ORIGIN, Names
from deep_bench.operators.placed import Placed
from deep_bench.tensor import TensorSpec


def lower(
    network: Network,
    *,
    native: Callable[[Site], Callable[..., Any]],
    fallback: Callable[[Site, Callable[..., Any]], Callable[..., Any]] | None,
    mode: Mode = "inference",
    outputs: Sequence[str] | None = None,
    kernel: Callable[[Site, Placed], tuple[Callable[..., Any], str]] | None = None,
) -> Lowered:
    """Analyse a network and have an adapter build native code for what remains to be done.

    The network is brought to the newest opset and its functions are inlined. Nodes whose results are known, that do
    nothing, or that nobody needs are gone from the plan; an ``If`` with a known condition is replaced by its branch.
    Each other node becomes the adapter's native code; or, if that has none, the native code of the body that ONNX defines
    for the operator; or the reference's function.

    Args:
        network: What to run; sizes that are fixed in its inputs are relied upon.
        native: Returns the adapter's code for a site; raises `NotNative` where it has none.
        fallback: Wraps a reference function (NumPy arrays in and out, attributes fixed) for a site; ``None`` refuses
            instead.
        mode: In ``"train"`` nothing that depends on a parameter is computed in advance.
        outputs: Names of values of the outermost graph, instead of the network's outputs.
        kernel: Wraps a kernel of the user's (`Network.replace`) for a site, whose operator then names the kernel too;
            returns the code, and how it is run. ``None`` refuses instead.

    Returns:
        The plan, whose outputs are named as asked for and in that order, and how each node of the network is run.

    Raises:
        UnsupportedOperator: A node can be run in none of these ways.
        Unsupported: The network cannot be written in the newest opset.
        InvalidArgument: ``outputs`` names no value.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> lowered = lower(network, native=lambda site: lambda *arrays: None, fallback=None)
        >>> lowered.plan.outputs
        ('logits',)
    """
    newest = upgrade(network)
    parameters = network.parameters
    names = Names(newest)
    analysis = Analysis(names, parameters if mode == "train" else (), newest.opsets)
    builder = Builder(analysis, native, fallback, network.opsets, parameters, kernel)
    draft = _analyse(newest, analysis)
    _ask(draft, newest, analysis, builder, outputs)
    plan = builder.plan(draft)
    forms = builder.forms
    run = {*forms.native, *forms.decomposed, *forms.fallback}
    origins = dict.fromkeys(str(n.meta.get(ORIGIN, n.name)) for n in newest.all_nodes())
    return Lowered(plan, forms, tuple(name for name in origins if name not in run))


def _analyse(network: Network, analysis: Analysis) -> Draft:
    graph = network.graph
    for value in _values(graph):
        analysis.name(value)  # the outermost graph's values come first: outputs are asked for by their names
    scope = analysis.new_scope()
    specs = {s.name: s for s in network.inputs}
    inputs = []
    for value in graph.inputs:
        spec = specs.get(str(value.name))
        if spec is not None:
            inputs.append(analysis.bind(value, _given(spec, value, scope)))
    steps: list[DraftStep] = []
    analysis.nodes(graph, scope, steps)
    return Draft(scope, inputs, steps, [])


def _given(spec: TensorSpec, value: ir.Value, scope: int) -> Fact:
    """What is known of an input of the network."""
    if not spec.is_tensor:
        return Fact(spec.name, scope, kind=container_type(spec))
    shape = tuple(d if isinstance(d, int) else None for d in spec.shape)
    return Fact(spec.name, scope, spec.dtype, shape if value.shape is not None else None)


def _values(graph: ir.Graph) -> list[ir.Value]:
    values = [*graph.inputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs)]
    return [v for v in values if v.name]


def _ask(draft: Draft, network: Network, analysis: Analysis, builder: Builder, outputs: Sequence[str] | None) -> None:
    """Make the values that are asked for the draft's outputs, each under its own name."""
    values = {str(v.name): v for v in _values(network.graph)}
    requested = [str(v.name) for v in network.graph.outputs] if outputs is None else list(outputs)
    missing = [name for name in requested if name not in values]
    if missing:
        raise InvalidArgument(f"{network.name} has no value {missing[0]!r}", "the name of a node's output")
    facts: dict[str, Fact] = {}
    for name in dict.fromkeys(requested):
        fact = analysis.fact(values[name])
        if fact.name != name and fact.constant is not None:
            fact = constant_fact(name, draft.scope, fact.constant)
        elif fact.name != name:
            source, fact = fact, Fact(name, draft.scope, fact.dtype, fact.shape, kind=fact.kind)
            draft.steps.append(builder.copy(source, fact))
        facts[name] = fact
    draft.outputs = [facts[name] for name in requested]
