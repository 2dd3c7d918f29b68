"""``fold``: what is the same in every run, computed once; ``fuse_batchnorm``: batch normalization as "
"part of the linear operator before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from deep_bench import frameworks
from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.graph.node import as_array, is_standard, operator_facts, prune, subgraphs
from deep_bench.network.transform.draft import Draft

LIMIT = 2**20
"""How large a folded result may be in bytes, unless it is no larger than what it is computed from."""


def fold(network: NetworkLike, *, limit: int = LIMIT) -> Network:
    """The network with the results of nodes that depend on constants only in the place of these nodes.

    The reference computes them, in the network's own element types. Nodes that draw random numbers stay, and so do those
    with graphs inside. A ``Shape`` or ``Size`` of what has a fixed shape counts as a constant. Values keep their names.

    Args:
        network: Any network, or its file.
        limit: How large a result may be, in bytes, unless it is no larger than the constants it is computed from.

    Raises:
        InvalidArgument: A negative limit.
        UnsupportedOperator: A node to fold has no reference.

    Example:
        >>> import onnx, deep_bench as db
        >>> proto = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 21]> f (float[2,3] x) => (float[6] y)
        ...     { s = Shape(x)  n = ReduceProd<keepdims = 1>(s)  y = Reshape(x, n) }''')
        >>> [node.op_type for node in fold(db.Network.from_proto(proto)).nodes]
        ['Reshape']
    """
    network = as_network(network)
    if limit < 0:
        raise InvalidArgument(f"a limit of {limit} bytes", "at least 0")
    draft = Draft(network, "folded", oldest=0)
    _fix_shapes(draft)
    chosen = _constant_nodes(draft, limit)
    results = _evaluated(draft, chosen)
    for node in chosen:
        input_bytes = sum(a.nbytes for v in node.inputs if (a := _contents(v, results)) is not None)
        values = [v for v in node.outputs if v.name and str(v.name) in results]
        if all(results[str(v.name)].nbytes <= max(limit, input_bytes) for v in values):
            for value in values:
                _store(draft, value, results[str(value.name)])
    return draft.finish()


def _contents(value: ir.Value | None, results: Mapping[str, np.ndarray]) -> np.ndarray | None:
    if value is None:
        return None
    return results.get(str(value.name), None if value.is_graph_input() else as_array(value))


def _fix_shapes(draft: Draft) -> None:
    """Replace ``Shape`` and ``Size`` of tensors whose dimensions are all fixed."""
    for node in tuple(draft.graph):
        if not is_standard(node) or node.op_type not in ("Shape", "Size") or node.inputs[0] is None:
            continue
        dims = draft.knowledge.dims(node.inputs[0])
        if dims is None or not all(isinstance(d, int) for d in dims):
            continue
        fixed = np.array(dims, np.int64)
        if node.op_type == "Size":
            array = np.asarray(np.prod(fixed, dtype=np.int64))
        else:
            bounds = {name: node.attributes[name].as_int() if name in node.attributes else None for name in ("start", "end")}
            array = fixed[slice(bounds["start"], bounds["end"])]
        _store(draft, node.outputs[0], array)


def _constant_nodes(draft: Draft, limit: int) -> list[ir.Node]:
    """The nodes that depend on constants only, in order."""
    constants: set[ir.Value] = {v for v in draft.graph.initializers.values() if not v.is_graph_input()}
    chosen: list[ir.Node] = []
    for node in draft.graph:
        if node.op_type == "Constant" and is_standard(node):
            constants.update(node.outputs)
        elif (
            _is_steady(node) and all(v is None or v in constants for v in node.inputs) and _may_be_small(draft, node, limit)
        ):
            constants.update(node.outputs)
            chosen.append(node)
    return chosen


def _is_steady(node: ir.Node) -> bool:
    """Whether a node's results are tensors that are the same in each run."""
    if operator_facts(node).random or subgraphs(node):
        return False
    if node.op_type.startswith(("Sequence", "Optional", "SplitToSequence")):
        return False
    return node.op_type != "Dropout" or len(node.inputs) < 3  # the third says whether it trains


def _may_be_small(draft: Draft, node: ir.Node, limit: int) -> bool:
    """Whether the results are not known to be too large; results of unknown size are computed only from small constants."""
    input_bytes = sum(a.nbytes for v in node.inputs if v is not None and (a := draft.constant(v)) is not None)
    sizes = [_size(draft, v) for v in node.outputs if v.name]
    fixed_sizes = [s for s in sizes if s is not None]
    if len(fixed_sizes) == len(sizes):
        return sum(fixed_sizes) <= max(limit, input_bytes)
    return not operator_facts(node).grows  # folded only if the size is known


def _size(draft: Draft, value: ir.Value) -> int | None:
    dims, dtype = draft.knowledge.dims(value), draft.knowledge.dtype(value)
    if dims is None or not all(isinstance(d, int) for d in dims):
        return None
    return int(np.prod(dims, dtype=np.int64)) * (dtype.itemsize if dtype is not None else 8)  # type: ignore[arg-type]


def _evaluated(draft: Draft, nodes: list[ir.Node]) -> dict[str, np.ndarray]:
    """The results of nodes, by the reference: name to array."""
    names = [str(v.name) for n in nodes for v in n.outputs if v.name]
    if not names:
        return {}
    alone = draft.network.copy()
    values = {v.name: v for n in alone.graph for v in n.outputs}
    alone.graph.outputs[:] = [values[name] for name in names]
    prune(alone.graph)
    alone.graph.inputs[:] = [v for v in alone.graph.inputs if v.name in alone.graph.initializers]
    outputs = frameworks["reference"]().prepare(
        Network(alone.model, name=f"constants of {draft.source.name}"), outputs=names
    )
    return {name: np.asarray(y) for name, y in outputs({}).items() if isinstance(y, np.ndarray | np.generic)}


def _store(draft: Draft, value: ir.Value, array: np.ndarray) -> None:
    """Let an initializer of the same name stand for a value; one that the network returns needs a node that gives it."""
    tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape))
    if value.is_graph_output():
        name = draft.names.fresh(f"{value.name}.constant")
        node = ir.Node("", "Constant", [], {"value": ir.AttrTensor("value", tensor)}, num_outputs=1, name=name)
        draft.graph.append(node)
        draft.supplant(value, node.outputs[0])
        return
    name = str(value.name)
    value.name = draft.names.fresh(f"{name}.before")
    initializer = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    draft.graph.register_initializer(initializer)
    value.replace_all_uses_with(initializer)


def fuse_batchnorm(network: NetworkLike) -> Network:
    r"""The network with batch normalizations folded into the weights of the linear operators before them.

    With :math:`f = \gamma / \sqrt{\sigma^2 + \epsilon}`, :math:`\gamma (Wx + b - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta`
    is :math:`(f W) x + f (b - \mu) + \beta`: the new weights and biases are computed in float64 and rounded once.

    It is done for a ``BatchNormalization`` in inference mode whose statistics are constants, after a ``Conv``,
    ``ConvTranspose`` (groups included), ``Gemm`` or ``MatMul`` of matrices with constant weights whose result nothing else
    uses. All others stay.

    Args:
        network: Any network, or its file.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> sum(n.op_type == "BatchNormalization" for n in network.nodes) > 0
        True
        >>> sum(n.op_type == "BatchNormalization" for n in fuse_batchnorm(network).nodes)
        0

    Source:
        Jacob et al., *Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference*, CVPR
        2018, section 3.2.
    """
    network = as_network(network)
    draft = Draft(network, "fused")
    for node in tuple(draft.graph):
        if is_standard(node) and node.op_type == "BatchNormalization":
            scaling, linear = _scaling(draft, node), _linear(draft, node)
            if scaling is not None and linear is not None:
                _FUSE[linear.op_type](draft, linear, node, scaling)
    return draft.finish()


@dataclass(frozen=True)
class _Scaling:
    """A normalization as a factor and a shift of each channel, in float64."""

    factor: np.ndarray
    mean: np.ndarray
    shift: np.ndarray


def _scaling(draft: Draft, node: ir.Node) -> _Scaling | None:
    statistics = [draft.constant(v) for v in node.inputs[1:5]]
    training = "training_mode" in node.attributes and node.attributes["training_mode"].as_int() != 0
    extra_outputs = any(v.uses() or v.is_graph_output() for v in node.outputs[1:])
    if training or extra_outputs or any(s is None for s in statistics):
        return None
    scale, shift, mean, variance = (np.asarray(s, np.float64) for s in statistics)
    attribute = node.attributes.get("epsilon")
    epsilon = np.float32(1e-5 if attribute is None else attribute.as_float())
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + np.float64(epsilon))
    return _Scaling(factor, mean, shift) if np.isfinite(factor).all() else None


def _linear(draft: Draft, node: ir.Node) -> ir.Node | None:
    """The node before a normalization, if it serves nothing else."""
    value = node.inputs[0]
    producer = None if value is None else value.producer()
    if value is None or producer is None or not is_standard(producer) or producer.op_type not in _FUSE:
        return None
    alone = len(value.uses()) == 1 and not value.is_graph_output()
    return producer if alone and draft.constant(producer.inputs[1]) is not None else None


def _fuse_conv(draft: Draft, linear: ir.Node, norm: ir.Node, scaling: _Scaling) -> None:
    weight = _weight(draft, linear)
    wide, factor = weight.astype(np.float64), scaling.factor
    bias = _bias(draft, linear, len(factor))
    if bias is None:
        return
    spatial = (1,) * (weight.ndim - 2)
    if linear.op_type == "Conv":
        fused = wide * factor.reshape(-1, 1, *spatial)
    else:
        group = linear.attributes["group"].as_int() if "group" in linear.attributes else 1
        grouped = wide.reshape(group, -1, *weight.shape[1:])
        fused = (grouped * factor.reshape(group, 1, -1, *spatial)).reshape(wide.shape)
    _put(draft, linear, norm, weight, fused, (bias - scaling.mean) * factor + scaling.shift)


def _fuse_gemm(draft: Draft, linear: ir.Node, norm: ir.Node, scaling: _Scaling) -> None:
    weight = _weight(draft, linear)
    transposed = "transB" in linear.attributes and linear.attributes["transB"].as_int() != 0
    beta = linear.attributes["beta"].as_float() if "beta" in linear.attributes else 1.0
    bias = _bias(draft, linear, len(scaling.factor))
    if bias is None:
        return
    fused = weight.astype(np.float64) * (scaling.factor[:, None] if transposed else scaling.factor)
    shift = (np.float64(np.float32(beta)) * bias - scaling.mean) * scaling.factor + scaling.shift
    if _put(draft, linear, norm, weight, fused, shift):
        linear.attributes.pop("beta", None)


def _fuse_matmul(draft: Draft, linear: ir.Node, norm: ir.Node, scaling: _Scaling) -> None:
    weight = _weight(draft, linear)
    left_operand = linear.inputs[0]
    dims = None if left_operand is None else draft.knowledge.dims(left_operand)
    if weight.ndim != 2 or dims is None or len(dims) != 2:
        return
    fused = weight.astype(np.float64) * scaling.factor
    if _put(draft, linear, norm, weight, fused, scaling.shift - scaling.mean * scaling.factor):
        linear.op_type = "Gemm"


def _weight(draft: Draft, linear: ir.Node) -> np.ndarray:
    weight = draft.constant(linear.inputs[1])
    assert weight is not None  # `_linear` chose it so
    return weight


def _bias(draft: Draft, linear: ir.Node, channels: int) -> np.ndarray | None:
    """The bias in float64 in a form that broadcasts over channels at its end; ``None`` if it is no constant."""
    if len(linear.inputs) < 3 or linear.inputs[2] is None:
        return np.zeros(channels)
    bias = draft.constant(linear.inputs[2])
    if bias is None:
        return None
    wide = bias.astype(np.float64)
    return np.broadcast_to(wide, (*wide.shape[:-1], channels)) if wide.ndim else np.full(channels, float(wide))


def _put(draft: Draft, linear: ir.Node, norm: ir.Node, weight: np.ndarray, fused: np.ndarray, bias: np.ndarray) -> bool:
    """Give the linear node its new constants, and the normalization's place, if the format can hold them."""
    with np.errstate(over="ignore"):
        arrays = [x.astype(weight.dtype) for x in (fused, bias)]
    if not all(np.isfinite(x.astype(np.float64)).all() for x in arrays):
        return False
    base = linear.inputs[1].name if linear.inputs[1] is not None else linear.name
    values = [draft.initializer(f"{base}.fused", arrays[0]), draft.initializer(f"{base}.fused_bias", arrays[1])]
    linear.resize_inputs(3)
    for index, value in enumerate(values, 1):
        linear.replace_input_with(index, value)
    draft.supplant(norm.outputs[0], linear.outputs[0])
    return True


_FUSE: Mapping[str, Callable[[Draft, ir.Node, ir.Node, _Scaling], None]] = {
    "Conv": _fuse_conv,
    "ConvTranspose": _fuse_conv,
    "Gemm": _fuse_gemm,
    "MatMul": _fuse_matmul,
}
