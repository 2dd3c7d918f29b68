"""The two forms of a network that training needs, one to take steps with and one to evaluate, and what may be fed to them.

Batches are looked at before they leave NumPy: names, shapes and types, and whether whole numbers are classes or rows of a
table that the network has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported
from deep_bench.framework import check_native, describe_numpy
from deep_bench.graph import Network, NetworkLike, as_network, attributes, operator_name
from deep_bench.graph.node import operator_facts
from deep_bench.graph.shapes import Knowledge
from deep_bench.network.gradient.tape import Symbol, Tape
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
    for node in _nodes_of(training, "BatchNormalization"):
        _by_the_batch(training, node, state, initial)
    draws = tuple(_dropped(training, node) for node in _nodes_of(training, "Dropout"))
    for node in _nodes_of(evaluation, "BatchNormalization"):
        _by_the_statistics(evaluation, node)
    for node in _nodes_of(evaluation, "Dropout"):
        data = node.inputs[0]
        assert data is not None
        if len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output()):
            x = Symbol(evaluation.tape(), data)
            evaluation.supplant(node.outputs[1], x.tape.constant(True, bool).expand(x.tape.Shape(x)).value)
        evaluation.supplant(node.outputs[0], data, copied=True)
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


def _nodes_of(draft: Draft, operator: str) -> tuple[ir.Node, ...]:
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


class Feed:
    """Takes from each batch the arrays that a network has as inputs, and refuses what does not fit them.

    Args:
        specs: The inputs that come from the data.
        network: Tells which labels and indices there are; ``None`` if it is not known.

    Example:
        >>> feed = Feed([TensorSpec("x", ("n", 2), np.dtype("float32"))])
        >>> list(feed({"x": np.zeros((3, 2), np.float32), "id": np.arange(3)}))
        ['x']
    """

    def __init__(self, specs: Sequence[TensorSpec], network: Network | None = None) -> None:
        self.specs = tuple(specs)
        self._fitting: list[tuple[Sequence[int], np.dtype] | None] | None = None
        names = {spec.name for spec in specs}
        self._limits = tuple(limit for limit in limits_of(network) if limit.name in names) if network is not None else ()

    def __call__(
        self, batch: Mapping[str, np.ndarray], numbers: Sequence[int] | np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """The arrays.

        Args:
            batch: Name to array, samples along the first axis.
            numbers: Those of the samples in their set, for messages.

        Raises:
            InvalidInput: One is missing, of another shape or type, or holds a label or index out of range.
        """
        for spec in self.specs:
            if spec.name not in batch:
                raise InvalidInput(f"samples without {spec.name!r}: {', '.join(batch)}", f"what the network takes: {spec}")
        fed = {spec.name: batch[spec.name] for spec in self.specs}
        forms = [describe_numpy(array) for array in fed.values()]
        if forms != self._fitting:  # most batches are like the one before
            check_native(self.specs, fed, describe_numpy)
            self._fitting = forms
        for limits in self._limits:
            limits.check(fed[limits.name], numbers)
        return fed


@dataclass(frozen=True, slots=True)
class FeedLimits:
    """What the numbers of an input may be. Outside of them some frameworks fail, and others go on with anything.

    Args:
        name: The input's.
        low: The least,
        high: and the largest.
        what: What they number.
        ignored: A number that is allowed besides.
    """

    name: str
    low: int
    high: int
    what: str
    ignored: int | None = None

    def check(self, array: np.ndarray, numbers: Sequence[int] | np.ndarray | None = None) -> None:
        """Compare an array with them.

        Args:
            array: Samples along its first axis; one that does not hold whole numbers is none of this check's matter.
            numbers: Those of the samples in their set.

        Raises:
            InvalidInput: One is outside; the message names the sample.

        Example:
            >>> FeedLimits("label", 0, 9, "classes of the loss 'loss'").check(np.array([3, 10]), numbers=[70, 71])
            Traceback (most recent call last):
                ...
            deep_bench.errors.InvalidInput: sample 71: 10 in 'label'
            Expected: 0 to 9, classes of the loss 'loss'
            What to do: correct the data, or state an ignore_index of the loss
        """
        if array.dtype.kind not in "iu" or not array.size or (array.min() >= self.low and array.max() <= self.high):
            return
        outside = (array < self.low) | (array > self.high)
        if self.ignored is not None:
            outside &= array != self.ignored
        if not outside.any():
            return
        first = tuple(np.argwhere(outside)[0])
        row = int(first[0]) if first else 0
        which = f"sample {row} of its batch" if numbers is None else f"sample {numbers[row]}"
        besides = "" if self.ignored is None else f", or {self.ignored} to be ignored"
        advice = "correct the data" + (", or state an ignore_index of the loss" if self.low == 0 and not besides else "")
        raise InvalidInput(
            f"{which}: {array[first]} in {self.name!r}", f"{self.low} to {self.high}, {self.what}{besides}", advice
        )


def limits_of(network: Network) -> tuple[FeedLimits, ...]:
    """The limits of a network's inputs, as far as they are known before a run.

    They are those of labels of ``SoftmaxCrossEntropyLoss`` and ``NegativeLogLikelihoodLoss``, and of the indices of
    ``Gather``, which ONNX lets count from the end as well.

    Args:
        network: The network, with its loss.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
        >>> limits_of(network)
        (FeedLimits(name='label', low=0, high=9, what="classes of the loss 'loss'", ignored=None),)
    """
    inputs = {spec.name for spec in network.inputs}
    uses = [(node, name) for node in network.nodes if (name := _numbered_by(node)) in inputs]
    if not uses:
        return ()
    knowledge = Knowledge(network)
    all_limits = [limits for node, name in uses for limits in _limits(node, str(name), knowledge)]
    return tuple({(limit.name, limit.low, limit.high, limit.ignored): limit for limit in reversed(all_limits)}.values())[
        ::-1
    ]


def _numbered_by(node: ir.Node) -> str | None:
    """Name of the value that the numbers come from."""
    if not operator_facts(node).loss and operator_name(node) != "Gather":
        return None
    value = node.inputs[1]
    while value is not None and (maker := value.producer()) is not None and operator_facts(maker).passes == "each":
        value = maker.inputs[0]
    return None if value is None else str(value.name)


def _limits(node: ir.Node, name: str, knowledge: Knowledge) -> Iterator[FeedLimits]:
    of, settings = node.inputs[0], attributes(node)
    dims = None if of is None else knowledge.dims(of)
    looks_up = operator_name(node) == "Gather"
    axis = settings.get("axis", 0) if looks_up else 1
    if dims is None or not -len(dims) <= axis < len(dims):
        return
    size = dims[axis]
    if not isinstance(size, int):
        return
    if looks_up:
        assert of is not None
        yield FeedLimits(name, -size, size - 1, f"rows of {of.name!r}, from the end if negative")
    else:
        yield FeedLimits(name, 0, size - 1, f"classes of the loss {node.outputs[0].name!r}", settings.get("ignore_index"))
