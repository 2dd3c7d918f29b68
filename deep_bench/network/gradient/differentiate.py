"""``differentiate``: a network that returns gradients too."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.graph.knowledge import Knowledge
from deep_bench.graph.prune import prune
from deep_bench.graph.upgrade.edit import Names
from deep_bench.network.gradient.backward import Backward
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape
from deep_bench.request import names_once
from deep_bench.tensor import is_float

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
