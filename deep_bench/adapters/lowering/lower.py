"""`lower`: a network as a plan of native code; for each node native code, its expansion, or the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import onnx_ir as ir

from deep_bench.adapters.lowering.analyse import Analysis
from deep_bench.adapters.lowering.infer import bound, reference
from deep_bench.adapters.lowering.plan import (
    DraftGraph,
    DraftStep,
    Fact,
    Lowered,
    NotNative,
    Plan,
    Site,
    Step,
    constant_fact,
    container_type,
)
from deep_bench.errors import InvalidArgument, UnsupportedOperator
from deep_bench.framework import Forms, Mode
from deep_bench.graph.edit import ORIGIN, Names
from deep_bench.graph.expand import expand
from deep_bench.graph.network import OPSET, Network, upgrade
from deep_bench.graph.node import is_standard, kernel_of, operator_name, outer_values, subgraphs
from deep_bench.operators.placed import Placed, placed
from deep_bench.reference.operators import misuse
from deep_bench.tensor import TensorSpec

Native: TypeAlias = Callable[[Site], Callable[..., Any]]
Fallback: TypeAlias = Callable[[Site, Callable[..., Any]], Callable[..., Any]]
Kernel: TypeAlias = Callable[[Site, Placed], tuple[Callable[..., Any], str]]
Built: TypeAlias = tuple[DraftStep, Step]


class Builder:
    """Builds plans with one adapter's code, and notes how each node is run.

    Args:
        analysis: What is known of the network's values.
        native: As in `lower`.
        fallback: As in `lower`.
        opsets: The version of each domain, the default one as the file has it.
        parameters: Names of the network's parameters.
        kernel: As in `lower`.
    """

    def __init__(
        self,
        analysis: Analysis,
        native: Native,
        fallback: Fallback | None,
        opsets: Mapping[str, int],
        parameters: Mapping[str, Any],
        kernel: Kernel | None = None,
    ) -> None:
        self.analysis = analysis
        self.native = native
        self.fallback = fallback
        self.kernel = kernel
        self.opsets = opsets
        self.parameters = parameters
        self._depth = 0  # of expansions around the node at hand
        self._native: dict[str, None] = {}
        self._decomposed: dict[str, None] = {}
        self._fallback: dict[str, str] = {}

    @property
    def forms(self) -> Forms:
        """How the nodes are run, by the names that the file gives them."""
        decomposed = tuple(n for n in self._decomposed if n not in self._fallback)
        worse = {*self._decomposed, *self._fallback}
        return Forms(tuple(n for n in self._native if n not in worse), decomposed, dict(self._fallback))

    def plan(self, draft: DraftGraph) -> Plan:
        """The plan of a graph and of all graphs in it.

        Raises:
            UnsupportedOperator: A node cannot run.
        """
        draft.prune()
        used = {f.name for f in draft.uses}
        built = [b for step in draft.steps for b in self._build(step, draft.scope, used)]
        uses = {f.name: f for b in built for f in _uses(b)} | {f.name: f for f in draft.outputs}
        local_facts = [f for f in uses.values() if f.scope == draft.scope and f.stored is not None]
        return Plan(
            inputs=tuple(f.slot for f in draft.inputs),
            steps=tuple(step for _, step in built),
            outputs=tuple(f.name for f in draft.outputs),
            constants={f.name: f.stored for f in local_facts if f.stored is not None},
            captures=tuple(f.name for f in uses.values() if f.scope != draft.scope),
            parameters=tuple(f.name for f in local_facts if f.name in self.parameters),
        )

    def _build(self, step: DraftStep, scope: int, used: set[str]) -> list[Built]:
        origin = step.node.meta.get(ORIGIN, step.node.name)
        if kernel_of(step.node) is not None:
            return [self._by_kernel(step, used, origin)]
        try:
            built = self._code(step, used)
        except NotNative as refusal:
            if self._depth:
                return self._further(step, scope, refusal)
            return self._otherwise(step, scope, used, origin, str(refusal) or "the framework has no code for it")
        if not self._depth and not _is_copy(step.node):
            self._native.setdefault(origin)
        return [built]

    def _by_kernel(self, step: DraftStep, used: set[str], origin: str) -> Built:
        """A node that a kernel of the user's computes; it counts as a fallback, whatever arrays the kernel takes."""
        site = self._site(step, used)
        domain = "" if is_standard(step.node) else step.node.domain
        constants = [None if f is None else f.constant for f in step.inputs]
        kernel = placed(step.node, self.opsets.get(domain) if domain else OPSET, constants)
        if self.kernel is None:
            raise self._unsupported(step, f"no kernel of others runs here, and {kernel.kernel.name} is to compute it")
        site = replace(site, operator=kernel.label)  # no rule for the operator's own code is a rule for the kernel
        try:
            code, how = self.kernel(site, kernel)
        except NotNative as refusal:
            raise self._unsupported(step, str(refusal)) from refusal
        self._fallback.setdefault(origin, how)
        return step, Step(site, code)

    def _further(self, step: DraftStep, scope: int, refusal: NotNative) -> list[Built]:
        """Inside an expansion all must be native, and nothing is counted."""
        try:
            return self._expanded(step, scope)
        except NotNative as deeper:
            raise NotNative(str(deeper) or str(refusal)) from refusal

    def _otherwise(self, step: DraftStep, scope: int, used: set[str], origin: str, reason: str) -> list[Built]:
        try:
            built = self._expanded(step, scope)
        except NotNative as refusal:
            reason = f"{reason}; {refusal}" if str(refusal) else reason
        else:
            self._decomposed.setdefault(origin)
            return built
        function = None if subgraphs(step.node) else reference(step.node)
        if function is None and self.fallback is not None:
            mixed = self._mixed(step, scope, origin, reason)
            if mixed is not None:
                return mixed
        site = self._site(step, used)
        if self.fallback is None or function is None or step.bodies:
            missing = "" if function is not None else "; the reference has no such operator either"
            raise self._unsupported(step, reason + missing)
        if wrong := misuse(function, len(site.inputs), step.attributes):
            raise self._unsupported(step, wrong)
        try:
            code = self.fallback(site, bound(function, step.attributes, len(site.outputs)))
        except NotNative as refusal:
            raise self._unsupported(step, f"{reason}; {refusal}") from refusal
        self._fallback.setdefault(origin, reason)
        return [(step, Step(site, code))]

    def _mixed(self, step: DraftStep, scope: int, origin: str, reason: str) -> list[Built] | None:
        """The operator's body, of which some nodes are computed by the reference, where that lacks the operator itself."""
        draft = self._body(step, scope)
        if draft is None:
            return None
        draft.prune()
        used = {f.name for f in draft.uses}
        built = [b for inner in draft.steps for b in self._build(inner, scope, used)]
        self._fallback.setdefault(origin, reason)
        return built

    def _unsupported(self, step: DraftStep, reason: str) -> UnsupportedOperator:
        origin = step.node.meta.get(ORIGIN, step.node.name)
        domain = "" if is_standard(step.node) else step.node.domain
        return UnsupportedOperator(str(origin), operator_name(step.node), self.opsets.get(domain), reason)

    def _code(self, step: DraftStep, used: set[str]) -> Built:
        site = self._site(step, used)
        try:
            function = self.native(site)
        except NotNative:
            if not _is_copy(step.node):
                raise
            function = _identity
        plans = [value for value in site.attributes.values() if isinstance(value, Plan)]
        return step, Step(site, function, tuple(dict.fromkeys(name for plan in plans for name in plan.captures)))

    def _site(self, step: DraftStep, used: set[str]) -> Site:
        bodies = self._plans(step)
        domain = "" if is_standard(step.node) else step.node.domain
        return Site(
            name=str(step.node.name),
            operator=operator_name(step.node),
            opset=OPSET if domain == "" else self.opsets.get(domain, 1),
            attributes={**step.attributes, **bodies},
            inputs=tuple(None if f is None else f.slot for f in step.inputs),
            outputs=tuple(f.slot if f.name in used else None for f in step.outputs),
            origin="" if _is_copy(step.node) else str(step.node.meta.get(ORIGIN, step.node.name)),
        )

    def _plans(self, step: DraftStep) -> dict[str, Plan]:
        """The plans of a step's graphs."""
        if not step.differentiated:
            return {name: self.plan(draft) for name, draft in step.bodies.items()}
        fallback, self.fallback = self.fallback, None  # no derivative is taken through the reference's functions
        try:
            return {name: self.plan(draft) for name, draft in step.bodies.items()}
        finally:
            self.fallback = fallback

    # Expanding

    def _expanded(self, step: DraftStep, scope: int) -> list[Built]:
        """The operator's body in native code.

        Raises:
            NotNative: There is no body, or a node of it has no native code.
        """
        draft = self._body(step, scope)
        if draft is None:
            raise NotNative
        draft.prune()
        used = {f.name for f in draft.uses}
        built: list[Built] = []
        self._depth += 1
        try:
            for inner in draft.steps:
                built.extend(self._inner(inner, scope, used))
        finally:
            self._depth -= 1
        return built

    def _inner(self, step: DraftStep, scope: int, used: set[str]) -> list[Built]:
        try:
            return self._build(step, scope, used)
        except NotNative as refusal:
            reason = str(refusal)
            if not reason.startswith(_NEEDS):
                reason = f"{_NEEDS} {operator_name(step.node)}, which is not native{': ' if reason else ''}{reason}"
            raise NotNative(reason) from refusal

    def _body(self, step: DraftStep, scope: int) -> DraftGraph | None:
        graph = expand(step.node, [None if f is None else f.proto for f in step.inputs], self.analysis.names)
        if graph is None:
            return None
        facts = {v.name: f for v, f in zip(step.node.inputs, step.inputs, strict=True) if v is not None and f is not None}
        captured = [v for inner in subgraphs(step.node).values() for v in outer_values(inner)]
        facts |= {v.name: self.analysis.fact(v) for v in captured}
        for inner in graph.all_nodes():
            inner.meta[ORIGIN] = step.node.meta.get(ORIGIN, step.node.name)
        for value in graph.inputs:
            self.analysis.bind(value, facts[value.name])
        steps: list[DraftStep] = []
        self.analysis.nodes(graph, scope, steps)
        named = [f for v, f in zip(step.node.outputs, step.outputs, strict=True) if v.name]
        for value, target in zip(graph.outputs, named, strict=True):
            steps.append(self.copy(self.analysis.fact(value), target))
        return DraftGraph(scope, [], steps, named)

    def copy(self, source: Fact, target: Fact) -> DraftStep:
        """A step that gives a value a second name."""
        name = self.analysis.names.fresh(f"{target.name}.copy")
        node = ir.Node("", "Identity", (), outputs=[ir.Value(name=target.name)], name=name)
        node.meta[_COPY] = True
        return DraftStep(node, {}, [source], [target])


def _uses(built: Built) -> list[Fact]:
    draft, step = built
    inputs = [f for f in draft.inputs if f is not None]
    return inputs + [f for f in draft.captures if f.name in step.captures]


_COPY = "deep_bench.copy"
_NEEDS = "its expansion needs"


def _is_copy(node: ir.Node) -> bool:
    return bool(node.meta.get(_COPY, False))


def _identity(x: Any) -> Any:
    return x


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


def _analyse(network: Network, analysis: Analysis) -> DraftGraph:
    graph = network.graph
    for value in _values(graph):
        analysis.name(value)  # the outermost graph's values come first: outputs are asked for by their names
    scope = analysis.new_scope()
    specs = {s.name: s for s in network.inputs}
    inputs = []
    for value in graph.inputs:
        spec = specs.get(str(value.name))
        if spec is not None:
            inputs.append(analysis.bind(value, _input_fact(spec, value, scope)))
    steps: list[DraftStep] = []
    analysis.nodes(graph, scope, steps)
    return DraftGraph(scope, inputs, steps, [])


def _input_fact(spec: TensorSpec, value: ir.Value, scope: int) -> Fact:
    """What is known of an input of the network."""
    if not spec.is_tensor:
        return Fact(spec.name, scope, kind=container_type(spec))
    shape = tuple(d if isinstance(d, int) else None for d in spec.shape)
    return Fact(spec.name, scope, spec.dtype, shape if value.shape is not None else None)


def _values(graph: ir.Graph) -> list[ir.Value]:
    values = [*graph.inputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs)]
    return [v for v in values if v.name]


def _ask(draft: DraftGraph, network: Network, analysis: Analysis, builder: Builder, outputs: Sequence[str] | None) -> None:
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
