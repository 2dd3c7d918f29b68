"""The two forms of a network that training needs: one to take steps with, one to evaluate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.graph import Network, NetworkLike, as_network, operator_name
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape
from deep_bench.network.transform.draft import Draft
from deep_bench.tensor import TensorSpec

_OPSET = 21
_MODES = {"BatchNormalization", "Dropout"}


@dataclass(frozen=True, eq=False)
class TrainingForm:
    r"""A network made ready to be trained, with all that changes from step to step among its inputs and outputs.

    In ``training``

    - each ``BatchNormalization`` normalizes by the batch, and its running mean and variance are inputs, whose next values
      are outputs: ``state`` says which;
    - each ``Dropout`` drops: :math:`y = x \cdot [u \ge r] / (1 - r)` at ratio :math:`r`, where the uniform numbers
      :math:`u` in [0, 1) are an input, one of ``draws``. So every framework drops the same, and a step can be replayed.

    In ``evaluation`` normalizations use the running statistics, inputs too, and nothing is dropped. Both have the same
    parameters.

    Args:
        source: The network that it was made from.
        training: What steps are taken with.
        evaluation: What it computes afterwards.
        state: Name of each statistic to that of the output that is its next value.
        initial: First value of each statistic.
        draws: The inputs that are uniform random numbers.
    """

    source: Network
    training: Network
    evaluation: Network
    state: Mapping[str, str]
    initial: Mapping[str, np.ndarray]
    draws: tuple[TensorSpec, ...]

    @cached_property
    def data(self) -> tuple[TensorSpec, ...]:
        """The inputs of a step that come from the training set."""
        internal_names = {*self.state, *(spec.name for spec in self.draws)}
        return tuple(spec for spec in self.training.inputs if spec.name not in internal_names)

    def draw(self, batch: Mapping[str, np.ndarray], seed: int, step: int) -> dict[str, np.ndarray]:
        """The uniform numbers of a step: the same for the same seed and step, anywhere.

        Args:
            batch: What the step is fed, which tells the sizes.
            seed: Of the run.
            step: The number of steps before.
        """
        if not self.draws:
            return {}
        generator = np.random.Generator(np.random.Philox(key=[seed, step]))
        sizes = {d: n for spec in self.data for d, n in zip(spec.shape, np.shape(batch[spec.name]), strict=True)}
        shapes = {spec.name: [sizes[d] if isinstance(d, str) else d for d in spec.shape] for spec in self.draws}
        return {name: generator.random(shape, np.float32) for name, shape in shapes.items()}

    def trained(self, parameters: Mapping[str, np.ndarray], statistics: Mapping[str, np.ndarray]) -> Network:
        """The network that it was made from, with other parameters and statistics.

        Raises:
            InvalidArgument: One that it does not have, or of another shape.
        """
        changed = self.source.copy()
        for name, array in {**parameters, **statistics}.items():
            value = changed.graph.initializers.get(name)
            if value is None or value.const_value is None:
                raise InvalidArgument(f"{name!r} is no initializer of {self.source.name}", "parameters and statistics of it")
            old = value.const_value.numpy()
            if np.shape(array) != old.shape:
                raise InvalidArgument(f"{name!r} of shape {list(np.shape(array))}", f"{list(old.shape)}")
            value.const_value = ir.tensor(np.asarray(array, old.dtype), name=name)
        return Network(changed.model, name=self.source.name)


def training_form(network: NetworkLike) -> TrainingForm:
    """Make a network ready to be trained.

    What is trained is `Network.parameters`: of initializers with a single element, those that are a layer's weight, bias,
    scale or slope. Others are constants of a formula, and stay.

    Args:
        network: Any network, or its file; with a loss (`Network.with_loss`), or without, to add one to ``training``.

    Raises:
        Unsupported: A normalization or dropout inside the body of ``If``, ``Loop`` or ``Scan``, or one whose statistics are
            not its own; or a dropout of something whose shape is unknown.

    Example:
        >>> import deep_bench as db
        >>> form = training_form(db.load("digits-cnn"))
        >>> [spec.name for spec in form.data], sorted(form.state)[:2]
        (['image'], ['depthwise_norm.running_mean', 'depthwise_norm.running_var'])

    Source:
        ONNX operators BatchNormalization (15) and Dropout (13); Ioffe and Szegedy, 2015; Srivastava et al., 2014.
    """
    network = as_network(network)
    _refuse_inner(network)
    training, evaluation = (Draft(network, base, _OPSET) for base in ("training", "evaluation"))
    state: dict[str, str] = {}
    initial: dict[str, np.ndarray] = {}
    for node in _those(training, "BatchNormalization"):
        _by_the_batch(training, node, state, initial)
    draws = tuple(_dropped(training, node) for node in _those(training, "Dropout"))
    for node in _those(evaluation, "BatchNormalization"):
        _by_the_statistics(evaluation, node)
    for node in _those(evaluation, "Dropout"):
        _kept(evaluation, node)
    return TrainingForm(network, training.finish(), evaluation.finish(), state, initial, draws)


def _refuse_inner(network: Network) -> None:
    outer = set(network.nodes)
    for node in network.all_nodes():
        if node not in outer and operator_name(node) in _MODES:
            raise Unsupported(
                f"{node.op_type} {node.name!r} lies in the body of another operator",
                "normalizations and dropouts in the outermost graph",
                "train the network with this body written out",
            )


def _those(draft: Draft, operator: str) -> tuple[ir.Node, ...]:
    return tuple(node for node in draft.graph if operator_name(node) == operator)


def _statistics(draft: Draft, node: ir.Node) -> tuple[ir.Value, ir.Value]:
    """The running mean and variance, as inputs of the graph."""
    for value in node.inputs[3:5]:
        if value is None or value.name not in draft.graph.initializers or len(value.uses()) > 1:
            raise Unsupported(
                f"the statistics of {node.name!r} are {'shared or computed' if value is not None else 'missing'}",
                "a running mean and variance that are initializers of its own",
            )
    mean, variance = node.inputs[3], node.inputs[4]
    assert mean is not None
    assert variance is not None
    return mean, variance


def _feed(draft: Draft, value: ir.Value) -> np.ndarray:
    """Turn an initializer into an input."""
    assert value.const_value is not None
    array = np.array(value.const_value.numpy())
    del draft.graph.initializers[str(value.name)]
    value.const_value = None
    value.type, value.shape = ir.TensorType(ir.DataType.from_numpy(array.dtype)), ir.Shape(array.shape)
    if value not in draft.graph.inputs:
        draft.graph.inputs.append(value)
    return array


def _by_the_batch(draft: Draft, node: ir.Node, state: dict[str, str], initial: dict[str, np.ndarray]) -> None:
    statistics = _statistics(draft, node)
    attributes = {k: a for k, a in node.attributes.items() if k != "training_mode"}
    outputs = [ir.Value(name=draft.names.fresh(f"{v.name}.next")) for v in statistics]
    normalized = ir.Value(name=draft.names.fresh(f"{node.name}.normalized"))
    mode = ir.AttrInt64("training_mode", 1)
    normal = ir.Node("", "BatchNormalization", node.inputs, [*attributes.values(), mode], outputs=[normalized, *outputs])
    normal.name = draft.names.fresh(f"{node.name}.training")
    draft.graph.append(normal)
    draft.supplant(node.outputs[0], normalized)
    for value, following in zip(statistics, outputs, strict=True):
        initial[str(value.name)] = _feed(draft, value)
        following.type, following.shape = value.type, value.shape
        draft.graph.outputs.append(following)
        state[str(value.name)] = str(following.name)
    for old, following in zip(node.outputs[1:3], outputs, strict=False):
        if old.uses() or old.is_graph_output():
            draft.supplant(old, following, copied=True)


def _by_the_statistics(draft: Draft, node: ir.Node) -> None:
    for old, value in zip(node.outputs[1:3], node.inputs[3:5], strict=False):
        if value is not None and (old.uses() or old.is_graph_output()):
            draft.supplant(old, value, copied=True)
    for value in _statistics(draft, node):
        _feed(draft, value)
    if "training_mode" in node.attributes:
        attributes = [a for k, a in node.attributes.items() if k != "training_mode"]
        normalized = ir.Value(name=draft.names.fresh(f"{node.name}.normalized"))
        draft.graph.append(
            ir.Node(
                "",
                "BatchNormalization",
                node.inputs,
                attributes,
                outputs=[normalized],
                name=draft.names.fresh(str(node.name)),
            )
        )
        draft.supplant(node.outputs[0], normalized)


def _dropped(draft: Draft, node: ir.Node) -> TensorSpec:
    data = node.inputs[0]
    assert data is not None
    dims = draft.dims(data)
    if any(d is None for d in dims):
        raise Unsupported(
            f"the shape of what {node.name!r} drops from is unknown before a run: {list(dims)}",
            "sizes that follow from those of the inputs",
            "fix the sizes of the inputs first: network.with_sizes(…)",
        )
    shape: Sequence[int | str] = [d for d in dims if d is not None]
    draw = ir.Value(
        name=draft.names.fresh(f"{node.name}.draw"), type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape)
    )
    draft.graph.inputs.append(draw)
    draft.knowledge.state(draw, ir.to_proto(draw).type)
    output, mask = _masked(draft.tape(), node, draw)
    draft.supplant(node.outputs[0], output.value)
    if len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output()):
        draft.supplant(node.outputs[1], mask.value)
    return TensorSpec(str(draw.name), tuple(shape), np.dtype(np.float32))


def _masked(tape: Tape, node: ir.Node, draw: ir.Value) -> tuple[Symbol, Symbol]:
    assert node.inputs[0] is not None
    x = Symbol(tape, node.inputs[0])
    ratio_input = node.inputs[1] if len(node.inputs) > 1 else None
    ratio = tape.constant(0.5, np.float32) if ratio_input is None else Symbol(tape, ratio_input).cast(np.float32)
    mask = Symbol(tape, draw) >= ratio
    scale = (1 / (1 - ratio)).cast(x)
    return tape.Where(mask, x * scale, tape.constant(0, x.dtype)), mask


def _kept(draft: Draft, node: ir.Node) -> None:
    data = node.inputs[0]
    assert data is not None
    if len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output()):
        x = Symbol(draft.tape(), data)
        draft.supplant(node.outputs[1], x.tape.constant(True, bool).expand(x.tape.Shape(x)).value)
    draft.supplant(node.outputs[0], data, copied=True)
