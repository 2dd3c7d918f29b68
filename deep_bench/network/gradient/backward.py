"""``differentiate``: a network that returns gradients too.

The walk back goes from gradients of results to gradients of what they were computed from. A node that a kernel of the user's
computes has the kernel's own ``backward``, as one node of the derived network.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import InvalidArgument, Unsupported, UnsupportedOperator
from deep_bench.framework import Device, names_once
from deep_bench.graph import Network, NetworkLike, as_network, operator_name
from deep_bench.graph.edit import Names
from deep_bench.graph.expand import expand
from deep_bench.graph.node import KERNEL_DOMAIN, attach_kernel, kernel_of, outer_values, prune, subgraphs
from deep_bench.graph.shapes import Knowledge
from deep_bench.network.gradient.rules import find, is_step
from deep_bench.network.gradient.rules._subgraphs import sum_of
from deep_bench.network.gradient.tape import Site, Symbol, Tape, inlined
from deep_bench.operators.placed import Placed, placed
from deep_bench.tensor import is_float, is_integer

OLDEST_OPSET = 21
"""What gradients are written in at least: every runtime of today has it, and all that rules use means the same since."""


def gradient_name(loss: str, value: str) -> str:
    """What the gradient of a loss with respect to a value is called.

    Example:
        >>> gradient_name("loss", "w")
        'd(loss)/d(w)'
    """
    return f"d({loss})/d({value})"


def differentiate(
    network: NetworkLike,
    loss: str = "loss",
    wrt: Sequence[str] | None = None,
    *,
    straight_through: bool = False,
    rounded_slopes: bool = False,
) -> Network:
    r"""The network with the gradients of one of its values as further outputs.

    Reverse-mode differentiation from ONNX to ONNX: after the network's own nodes follow those that compute
    :math:`\partial loss / \partial x` for each ``x`` in ``wrt``, by one rule for each operator. Operators without a rule are
    differentiated through the body that ONNX defines for them. Steps, such as those of ``Floor``, have the gradient 0.

    Args:
        network: Any network, or its file. It is brought to opset 21 if it is older.
        loss: Name of a value of the outermost graph with one element.
        wrt: Names of floating-point inputs, initializers or other values of the outermost graph to differentiate with
            respect to. By default the network's parameters, or its floating-point inputs if it has none.
        straight_through: Whether quantization counts as if it did nothing where it does not saturate, instead of as steps.
        rounded_slopes: Whether the slopes of activations inside recurrent layers are taken from rounded values, as
            frameworks do it: ``y (1 - y)`` loses the bits of a gradient where ``y`` is nearly 1, and by default no bits are
            lost.

    Returns:
        A network with the outputs of ``network``, then one gradient for each of ``wrt``, of its shape and element type and
        called as `gradient_name` says.

    Raises:
        InvalidArgument: A name that the outermost graph does not have, or that is in ``wrt`` twice; a value that is not
            floating point; or a loss of more than one element.
        UnsupportedOperator: A node between them has no gradient; the message names it and says why.

    Example:
        >>> import numpy as np, onnx, deep_bench as db
        >>> from deep_bench.network import differentiate
        >>> proto = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 21]>
        ...     square (float[3] x) => (float loss) { y = Mul(x, x)  loss = ReduceSum<keepdims = 0>(y) }''')
        >>> gradients = differentiate(db.Network.from_proto(proto))
        >>> run = db.frameworks["reference"]().prepare(gradients)
        >>> run({"x": np.array([1, 2, 3], np.float32)})["d(loss)/d(x)"]
        array([2., 4., 6.], dtype=float32)

    Source:
        Griewank and Walther, *Evaluating Derivatives*, 2nd ed., section 3.2.
    """
    network = as_network(network)
    requested = None if wrt is None else names_once(wrt)
    changed = network.upgraded(max(OLDEST_OPSET, network.opset)).copy()
    knowledge = Knowledge(changed)
    values = _values(changed.graph)
    tape = Tape(changed.graph, Names(changed), knowledge, "gradient")
    result = Symbol(tape, _named(values, loss, changed))
    _check_loss(tape, result)
    chosen = [_named(values, name, changed) for name in (_default(changed) if requested is None else requested)]
    for value in chosen:
        _check_float(tape, value)
    seeds = {result.value: tape.constant(1, result.dtype).expand(result.shape)}
    gradients = Backward(straight_through=straight_through, rounded_slopes=rounded_slopes).run(
        tape, tuple(changed.graph), seeds, chosen
    )
    for value in chosen:
        gradient = gradients.get(value) or tape.zeros_like(Symbol(tape, value))
        _return(tape, gradient, gradient_name(loss, str(value.name)), value)
    prune(changed.graph)
    return Network(changed.model, name=f"{network.name} with gradients", source=None)


def _values(graph: ir.Graph) -> dict[str, ir.Value]:
    values = [*graph.inputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs)]
    return {str(v.name): v for v in values if v.name}


def _named(values: dict[str, ir.Value], name: str, network: Network) -> ir.Value:
    if name not in values:
        outputs = ", ".join(spec.name for spec in network.outputs)
        raise InvalidArgument(
            f"{network.name} has no value {name!r}", f"a value of its outermost graph; its outputs: {outputs}"
        )
    return values[name]


def _default(network: Network) -> list[str]:
    """The parameters, or the floating-point inputs of a network that has none."""
    return list(network.parameters) or [spec.name for spec in network.inputs if spec.is_tensor and is_float(spec.dtype)]


def _check_loss(tape: Tape, loss: Symbol) -> None:
    _check_float(tape, loss.value)
    dims = tape.known_dims(loss.value)
    if dims is None and loss.value.shape is not None:  # what the file declares: wrong, it would fail in the run
        dims = tuple(d if isinstance(d, int) else d.value for d in loss.value.shape)
    if dims is None or any(d != 1 for d in dims):
        shape = "an unknown shape" if dims is None else f"shape {[d if d is not None else '?' for d in dims]}"
        raise InvalidArgument(
            f"the value {loss.value.name!r} has {shape}",
            "a loss of one element",
            "add a loss to the network, or its sum: network.with_loss(…)",
        )


def _check_float(tape: Tape, value: ir.Value) -> None:
    dtype = tape.knowledge.dtype(value)
    if dtype is None or not is_float(dtype):
        raise InvalidArgument(f"the value {value.name!r} is {dtype or 'of an unknown type'}", "a floating-point tensor")
    if dtype.name == "float8_e8m0fnu":
        raise InvalidArgument(
            f"the value {value.name!r} is {dtype.name}, which has no negative numbers and no 0, as gradients have",
            "a value of another floating-point type",
        )


def _return(tape: Tape, gradient: Symbol, name: str, of: ir.Value) -> None:
    output = ir.Value(name=tape.names.fresh(name))
    if output.name != name:
        raise InvalidArgument(f"the network has a value {name!r} already", "a network without this gradient")
    gradient_dtype, target_dtype = tape.knowledge.dtype(gradient.value), tape.knowledge.dtype(of)
    op_type, attributes = "Identity", []
    if (
        gradient_dtype is not None and target_dtype is not None and gradient_dtype != target_dtype
    ):  # gradients of 8 bits were in float32 on the way
        op_type, attributes = "Cast", [ir.AttrInt64("to", int(ir.DataType.from_numpy(target_dtype)))]
    node = ir.Node("", op_type, [gradient.value], attributes, outputs=[output], name=tape.names.fresh(name))
    tape.append(node)
    value_type = tape.knowledge.type_of(of)
    if value_type is not None:
        output.type = ir.serde.deserialize_type_proto_for_type(value_type)
        output.shape = ir.serde.deserialize_type_proto_for_shape(value_type)
    tape.graph.outputs.append(output)


Gradients = dict[ir.Value, Symbol]

_PRODUCTS = ("MatMulInteger", "ConvInteger")
"""The operators whose results of 4 bytes stand for real numbers; of others, only those of up to 2 bytes do."""


class Backward:
    """Applies the rule of each node, from the last to the first.

    Args:
        straight_through: Whether quantization counts as if it did nothing, where it does not saturate.
        rounded_slopes: Whether the slopes inside recurrent layers are taken from rounded values: ``y (1 - y)`` for the
            sigmoid, which loses bits where ``y`` is nearly 1.
    """

    def __init__(self, *, straight_through: bool = False, rounded_slopes: bool = False) -> None:
        self.straight_through, self.rounded_slopes = straight_through, rounded_slopes

    def run(
        self, tape: Tape, nodes: Sequence[ir.Node], seeds: Mapping[ir.Value, Symbol], targets: Collection[ir.Value]
    ) -> Gradients:
        r"""The gradients of ``targets``: :math:`\bar x = \sum_i (\partial y_i / \partial x)^T \bar y_i`.

        Args:
            tape: Where they are written.
            nodes: What computes ``seeds`` from ``targets``, in topological order.
            seeds: The gradient of each result.
            targets: The values whose gradients are asked for.

        Returns:
            Target to gradient; a target that no result depends on is absent.

        Raises:
            UnsupportedOperator: A node on the way has no gradient.
        """
        active = self.depending(tape, nodes, targets)
        parts: dict[ir.Value, list[Symbol]] = {value: [gradient] for value, gradient in seeds.items()}
        for node in reversed(nodes):
            output_gradients = [_total(parts, v, keep=v in targets) for v in node.outputs]
            if any(g is not None for g in output_gradients) and any(v in active for v in _uses(node)):
                for value, gradient in self._node(node, tape, output_gradients, active):
                    parts.setdefault(value, []).append(gradient)
        return {value: total for value in targets if (total := _total(parts, value, keep=True)) is not None}

    def depending(self, tape: Tape, nodes: Sequence[ir.Node], targets: Iterable[ir.Value]) -> set[ir.Value]:
        """The targets, and the values that depend on them through real numbers, or straight through quantized ones."""
        active = set(targets)
        for node in nodes:
            if any(v in active for v in _uses(node)):
                quantized = (4 if node.op_type in _PRODUCTS else 2) if self.straight_through else 0
                active.update(v for v in node.outputs if _carries(tape, v, quantized))
        return active

    def _node(
        self, node: ir.Node, tape: Tape, output_gradients: Sequence[Symbol | None], active: Collection[ir.Value]
    ) -> Iterable[tuple[ir.Value, Symbol]]:
        if kernel_of(node) is not None:
            return by_kernel(node, tape, output_gradients, active)
        if is_step(node):
            return []
        site = Site(node, tape, self, output_gradients, active.__contains__)
        rule = find(node.domain, node.op_type)
        before, tape.base = tape.base, f"{node.name}.gradient"
        try:
            result = _by_body(site) if rule is None else rule(site, *site.inputs, **site.attributes)
        except UnsupportedOperator:
            raise
        except Unsupported as refusal:  # of the tape, which does not know the node
            raise site.refusal(refusal.came) from refusal
        finally:
            tape.base = before
        return [(value, gradient) for value, gradient in _pairs(node, result) if value in active]


def _pairs(node: ir.Node, result: Any) -> Iterable[tuple[ir.Value, Symbol]]:
    """What a rule returned: a gradient, one for each input, or a mapping from value to gradient."""
    if isinstance(result, Mapping):
        return result.items()
    gradients = [result] if isinstance(result, Symbol) or result is None else list(result)
    return [(v, g) for v, g in zip(node.inputs, gradients, strict=False) if v is not None and g is not None]


def _by_body(site: Site) -> list[Symbol | None]:
    """The gradients of a composite operator, by those of the body that ONNX defines for it."""
    node, tape = site.node, site.op
    types = [None if v is None else tape.knowledge.type_of(v) for v in node.inputs]
    body = expand(node, [t if t is not None else None for t in types], tape.names)
    if body is None:
        raise site.refusal(f"there is no rule for {operator_name(node)}, and no body in the standard")
    by_name = {str(v.name): Symbol(tape, v) for v in _uses(node)}
    fed = [by_name[str(v.name)] for v in body.inputs]
    for value in body.outputs:
        value.name = tape.names.fresh(f"{value.name}.again")

    def function(*inputs: Symbol) -> list[Symbol]:
        return inlined(body, inputs, tape)

    gradients = dict(zip((x.value for x in fed), site.through(function, *fed), strict=True))
    return [None if v is None else gradients.pop(v, None) for v in node.inputs]


def _total(parts: dict[ir.Value, list[Symbol]], value: ir.Value, *, keep: bool) -> Symbol | None:
    """The sum of what arrived at a value."""
    gradients = parts.get(value) if keep else parts.pop(value, None)
    if not gradients:
        return None
    total = gradients[0]
    for part in gradients[1:]:
        total = sum_of(total, part)
    if keep:
        parts[value] = [total]
    return total


def _uses(node: ir.Node) -> list[ir.Value]:
    """What a node takes: its inputs, and what its graphs take from around it."""
    captured = [v for graph in subgraphs(node).values() for v in outer_values(graph)]
    return [v for v in dict.fromkeys([*node.inputs, *captured]) if v is not None]


def _carries(tape: Tape, value: ir.Value, quantized: int) -> bool:
    """Whether a value may have a gradient: a real tensor, one of integers of up to ``quantized`` bytes, or a container."""
    value_type = tape.knowledge.type_of(value)
    while value_type is not None and not value_type.HasField("tensor_type"):
        if value_type.HasField("sequence_type"):
            value_type = value_type.sequence_type.elem_type
        elif value_type.HasField("optional_type"):
            value_type = value_type.optional_type.elem_type
        else:
            return True
    kind = value_type.tensor_type.elem_type if value_type is not None else onnx.TensorProto.UNDEFINED
    if kind == onnx.TensorProto.UNDEFINED:
        return True
    if kind == onnx.TensorProto.STRING:
        return False
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    return is_float(dtype) or (is_integer(dtype) and dtype.itemsize <= quantized)


def by_kernel(
    node: ir.Node, tape: Tape, given: Sequence[Symbol | None], active: Collection[ir.Value]
) -> list[tuple[ir.Value, Symbol]]:
    """The gradients of a node's inputs by its kernel.

    Args:
        node: The node.
        tape: Where the node that computes them is written.
        given: The gradient of each of its outputs.
        active: The values whose gradients are wanted.

    Raises:
        UnsupportedOperator: The kernel has no backward.
    """
    kernel = placed(node, tape.knowledge.opset)
    kernel.require_backward()
    values = list(node.inputs)
    indices = tuple(i for i, v in enumerate(values) if v is not None and v in active)
    outputs = []
    for index in indices:
        value = values[index]
        assert value is not None
        output = ir.Value(name=tape.names.fresh(f"{node.name}.gradient.{kernel.kernel.name}"))
        value_type = tape.knowledge.type_of(value)
        tape.knowledge.state(output, value_type)
        if value_type is not None:
            output.type = ir.serde.deserialize_type_proto_for_type(value_type)
            output.shape = ir.serde.deserialize_type_proto_for_shape(value_type)
        outputs.append(output)
    fed = [*(None if g is None else g.value for g in given), *values, *node.outputs]
    name = tape.names.fresh(f"{node.name}.gradient.{kernel.kernel.name}")
    written = ir.Node(KERNEL_DOMAIN, f"{kernel.kernel.name}.backward", fed, outputs=outputs, name=name)
    attach_kernel(written, KernelGradient(kernel, len(node.outputs), len(values), indices))
    tape.graph.opset_imports.setdefault(KERNEL_DOMAIN, 1)
    tape.append(written)
    pairs = [(values[index], Symbol(tape, output)) for index, output in zip(indices, outputs, strict=True)]
    return [(value, symbol) for value, symbol in pairs if value is not None]


class KernelGradient:
    """A kernel that computes another one's ``backward``: its inputs are the gradients, the inputs and the outputs.

    Args:
        of: The other one.
        outputs: How many outputs that has.
        inputs: How many inputs.
        wanted: The positions of the inputs whose gradients are wanted.
    """

    differentiates = False

    def __init__(self, of: Placed, outputs: int, inputs: int, wanted: Sequence[int]) -> None:
        self.of, self.outputs, self.inputs, self.wanted = of, outputs, inputs, tuple(wanted)

    @property
    def name(self) -> str:
        """The other one's, and that it is its gradient."""
        return f"{self.of.kernel.name}.backward"

    @property
    def device(self) -> Device[Any]:
        """The other one's."""
        return self.of.device

    def forward(self, *arrays: Any) -> tuple[Any, ...]:
        """The gradients that are wanted; zeros where the kernel says that there is none."""
        grads, remainder = arrays[: self.outputs], arrays[self.outputs :]
        inputs, results = remainder[: self.inputs], remainder[self.inputs :]
        gradients = self.of.backward(grads, inputs, results)
        return tuple(gradients[i] if gradients[i] is not None else self._zeros(inputs[i]) for i in self.wanted)

    def backward(self, grads: Any, inputs: Any, outputs: Any, **attributes: Any) -> Any:
        """There are no second derivatives: `differentiates` says so."""
        raise NotImplementedError

    def _zeros(self, x: Any) -> Any:
        return self.device.from_numpy(np.zeros_like(self.device.to_numpy(x)))
