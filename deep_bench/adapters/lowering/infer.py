"""Types, shapes and shape arithmetic of one node; also of ONNX Runtime's own operators, of which the standard knows nothing.

The reference's NumPy function of a node computes what is constant.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError

from deep_bench.adapters.lowering.plan import DATA_LIMIT, Fact, Partial, Shape, Site, read_type, tensor_type
from deep_bench.graph.network import OPSET, newest_schema
from deep_bench.graph.node import is_standard, subgraphs
from deep_bench.reference import operators
from deep_bench.reference.operators import takes_count

__all__ = ["bound", "reference"]


def reference(node: ir.Node) -> Callable[..., Any] | None:
    """The reference's function of the node's operator, if it has one."""
    return operators.find(node.domain, node.op_type)


def bound(function: Callable[..., Any], attributes: Mapping[str, Any], n_outputs: int) -> Callable[..., Any]:
    """A reference function with its attributes fixed.

    Returns:
        A function of NumPy arrays (``None`` for an omitted input) that returns one array, or a tuple of ``n_outputs`` of
        them where that is more than one.
    """
    settings = dict(attributes)
    if takes_count(function):
        settings["n_outputs"] = n_outputs

    def evaluate(*inputs: Any) -> Any:
        with np.errstate(all="ignore"):
            result = function(*inputs, **settings)
        if not isinstance(result, tuple):
            return result
        return result[0] if n_outputs == 1 else result[:n_outputs]

    return evaluate


Inputs = Sequence[Fact | None]
_FLOAT, _INT32, _INT64 = (np.dtype(t) for t in (np.float32, np.int32, np.int64))

_TYPES: Mapping[str, tuple[int | np.dtype, ...]] = {
    "DequantizeLinear": (1,),
    "EmbedLayerNormalization": (2, _INT32, 2),
    "GatherBlockQuantized": (2,),
    "MatMulIntegerToFloat": (2,),
    "QAttention": (2, 2),
    "QEmbedLayerNormalization": (8, _INT32),
    "QLinearConcat": (1,),
    "QLinearConv": (7,),
    "QLinearWhere": (1,),
    "SimplifiedLayerNormalization": (1, _FLOAT),
    "SkipLayerNormalization": (0, _FLOAT, _FLOAT, 0),
    "SkipSimplifiedLayerNormalization": (0, _FLOAT, _FLOAT, 0),
    "Unique": (0, _INT64, _INT64),
}
"""For each output its element type, or the number of the input that it is that of."""


_LIKE_THE_FIRST = frozenset(
    """
    Attention BiasAdd BiasGelu BiasSoftmax BiasSplitGelu CDist ConvTransposeWithDynamicPads CropAndResize DynamicQuantizeLSTM
    DynamicQuantizeMatMul ExpandDims FastGelu FusedConv FusedGemm FusedMatMul GatherND Gelu GridSample GroupNorm Inverse
    GroupQueryAttention MatMulNBits MultiHeadAttention NhwcMaxPool Pad QLinearAdd QLinearAveragePool QLinearGlobalAveragePool
    QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QuickGelu Range RotaryEmbedding ScaledSiLU TransposeMatMul
    Trilu
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Operators whose results all have the first input's element type."""


_SAME_SHAPE = frozenset(
    """
    BiasAdd BiasGelu BiasSoftmax DequantizeLinear FastGelu Gelu GroupNorm Inverse QLinearLeakyRelu QLinearSigmoid
    QLinearSoftmax QuantizeLinear QuickGelu RotaryEmbedding ScaledSiLU SimplifiedLayerNormalization SkipLayerNormalization
    SkipSimplifiedLayerNormalization Trilu
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Operators whose first result has the first input's shape."""


_SAME_RANK = frozenset(
    """
    BiasSplitGelu ConvTransposeWithDynamicPads FusedConv FusedGemm NhwcMaxPool QGemm QLinearAveragePool QLinearConv
    QLinearGlobalAveragePool Pad GridSample CropAndResize
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Operators whose result has as many axes as the first input."""


def infer_contrib(node: ir.Node, inputs: Inputs) -> list[tuple[np.dtype | None, Shape | None, None]]:
    """Element type and shape of each output, as far as the inputs tell."""
    types = [_type(node, inputs, index) for index in range(len(node.outputs))]
    shapes: list[Shape | None] = [None] * len(types)
    shapes[0] = _shape(node, inputs)
    return [(dtype, shape, None) for dtype, shape in zip(types, shapes, strict=True)]


def _type(node: ir.Node, inputs: Inputs, output: int) -> np.dtype | None:
    if node.op_type == "QuantizeLinear":
        return _of(inputs, 2) if _is_given(inputs, 2) else np.dtype(np.uint8)
    if node.op_type == "QGemm":
        return _of(inputs, 8) if _is_given(inputs, 7) else _FLOAT
    rule = (0,) * len(node.outputs) if node.op_type in _LIKE_THE_FIRST else _TYPES.get(node.op_type, ())
    source = rule[output] if output < len(rule) else None
    return _of(inputs, source) if isinstance(source, int) else source


def _is_given(inputs: Inputs, index: int) -> bool:
    return index < len(inputs) and inputs[index] is not None


def _of(inputs: Inputs, index: int) -> np.dtype | None:
    fact = inputs[index] if index < len(inputs) else None
    return None if fact is None else fact.dtype


def _shape(node: ir.Node, inputs: Inputs) -> Shape | None:
    shape = _sizes(inputs, 0)
    if node.op_type in _SAME_SHAPE:
        return shape
    if node.op_type in _SAME_RANK:
        return None if shape is None else (None,) * len(shape)
    rule = _SHAPES.get(node.op_type)
    return None if rule is None else rule(node, inputs)


def _sizes(inputs: Inputs, index: int) -> Shape | None:
    fact = inputs[index] if index < len(inputs) else None
    return None if fact is None else fact.shape


def _of_matrix(_node: ir.Node, inputs: Inputs) -> Shape | None:
    """The shape of a product with a matrix on the right."""
    a, b = _sizes(inputs, 0), _sizes(inputs, 1)
    return None if a is None or b is None or len(b) != 2 or not a else (*a[:-1], b[1])


def _of_packed(node: ir.Node, inputs: Inputs) -> Shape | None:
    a = _sizes(inputs, 0)
    return None if not a else (*a[:-1], node.attributes["N"].as_int())


def _of_either(first: int, second: int) -> Callable[[ir.Node, Inputs], Shape | None]:
    """Of two inputs that broadcast: as many axes as the one with more."""

    def rule(_node: ir.Node, inputs: Inputs) -> Shape | None:
        a, b = _sizes(inputs, first), _sizes(inputs, second)
        return None if a is None or b is None else (None,) * max(len(a), len(b))

    return rule


def _open(rank: int) -> Callable[[ir.Node, Inputs], Shape | None]:
    return lambda _node, _inputs: (None,) * rank


_SHAPES: Mapping[str, Callable[[ir.Node, Inputs], Shape | None]] = {
    "Attention": _open(3),
    "DynamicQuantizeLSTM": _open(4),
    "DynamicQuantizeMatMul": _of_matrix,
    "EmbedLayerNormalization": _open(3),
    "GroupQueryAttention": _open(3),
    "MatMulIntegerToFloat": _of_matrix,
    "MatMulNBits": _of_packed,
    "MultiHeadAttention": _open(3),
    "QAttention": _open(3),
    "QEmbedLayerNormalization": _open(3),
    "QLinearAdd": _of_either(0, 3),
    "QLinearMul": _of_either(0, 3),
    "Range": _open(1),
}


Inferred = tuple[np.dtype | None, Shape | None, onnx.TypeProto | None]
UNKNOWN: Inferred = (None, None, None)


def infer(node: ir.Node, inputs: Sequence[Fact | None], opsets: Mapping[str, int]) -> list[Inferred]:
    """Element type, shape and kind of each output, as far as the inputs tell; never what the file declares.

    Nodes outside the standard's domains and nodes with an input of unknown type give nothing.

    Args:
        node: The node; its graphs are not looked at.
        inputs: What is known of its inputs.
        opsets: The version of each domain but the default one.
    """
    nothing = [UNKNOWN] * len(node.outputs)
    schema = _schema(node, opsets)
    if schema is None and reference(node) is not None:
        return list(infer_contrib(node, inputs))
    if schema is None or any(f is not None and f.dtype is None and f.kind is None for f in inputs):
        return nothing
    inferred = _ask(schema, node, inputs, sizes=True) or _ask(schema, node, inputs, sizes=False) or nothing
    if not is_standard(node):
        return inferred
    if _is_mistaken(node, inputs):
        return [(dtype, None if shape is None else (None,) * len(shape), kind) for dtype, shape, kind in inferred]
    better = OWN_SHAPES.get(node.op_type)
    if better is not None and inferred[0][0] is not None:
        shape = better(node, inputs)
        if shape is not None and (inferred[0][1] is None or len(inferred[0][1]) == len(shape)):
            inferred[0] = (inferred[0][0], _meet(inferred[0][1], shape), None)
    return inferred


def output_types(site: Site) -> list[np.dtype | None]:
    """The element types of a site's outputs, as its inputs' types tell; ``None`` for each that they do not.

    Adapters ask it where types become known only when the network runs.

    Args:
        site: Of an operator of the default domain, without graphs of its own.
    """
    schema: Any = newest_schema(site.operator)
    facts = [None if s is None else Fact(s.name, 0, s.dtype) for s in site.inputs]
    if schema is None or any(f is not None and f.dtype is None for f in facts):
        return [None] * len(site.outputs)
    attributes = [_attribute(schema.attributes[n], v) for n, v in site.attributes.items() if n in schema.attributes]
    node = ir.Node("", site.operator, (), attributes, num_outputs=len(site.outputs))
    inferred = _ask(schema, node, facts, sizes=False)
    return [None] * len(site.outputs) if inferred is None else [dtype for dtype, _, _ in inferred]


def _attribute(declared: Any, value: Any) -> ir.Attr:
    """An attribute as the standard holds it, from the plain value that a site has."""
    if isinstance(value, np.ndarray):
        value = onnx.numpy_helper.from_array(value)
    elif isinstance(value, tuple) and any(isinstance(v, np.ndarray) for v in value):
        value = [onnx.numpy_helper.from_array(v) for v in value]
    attribute = onnx.helper.make_attribute(declared.name, value, attr_type=int(declared.type.value))
    return ir.serde.deserialize_attribute(attribute)


def _schema(node: ir.Node, opsets: Mapping[str, int]) -> Any:  # onnx's stubs lack half of OpSchema
    if is_standard(node):
        return newest_schema(node.op_type)
    version = opsets.get(node.domain)
    if version is None or not onnx.defs.has(node.op_type, version, node.domain):
        return None
    return onnx.defs.get_schema(node.op_type, version, node.domain)


def _ask(schema: Any, node: ir.Node, inputs: Sequence[Fact | None], *, sizes: bool) -> list[Inferred] | None:
    """What the standard infers; without ``sizes`` from the element types alone, which helps where the sizes do not fit.

    They do not in a branch that is never taken, for one.
    """
    present = [(f"i{i}", f) for i, f in enumerate(inputs) if f is not None]
    names = [f"i{i}" if f is not None else "" for i, f in enumerate(inputs)]
    proto = onnx.NodeProto(op_type=node.op_type, input=names, output=[f"o{i}" for i in range(len(node.outputs))])
    graphs = subgraphs(node)
    proto.attribute.extend(ir.serde.serialize_attribute(a) for n, a in node.attributes.items() if n not in graphs)
    types = {
        n: (f.proto if sizes or f.kind is not None else tensor_type(f.dtype, None)).SerializeToString() for n, f in present
    }
    data = {n: _tensor(f) for n, f in present if sizes and _decides_shapes(f)}
    try:
        # the public wrapper, infer_node_outputs, parses and writes each message once more
        serialized = schema._infer_node_outputs(
            proto.SerializeToString(), types, data, {}, {"": OPSET} | _own_opset(schema), onnx.IR_VERSION
        )
    except (InferenceError, ValidationError, RuntimeError, KeyError):
        return None  # the standard cannot tell: unknown is always right
    parsed = {n: onnx.TypeProto.FromString(t) for n, t in serialized.items()}
    return [read_type(parsed[name]) if name in parsed else UNKNOWN for name in proto.output]


def _own_opset(schema: Any) -> dict[str, int]:
    return {schema.domain: schema.since_version} if schema.domain else {}


def _meet(a: Shape | None, b: Shape) -> Shape:
    return b if a is None else tuple(x if x is not None else y for x, y in zip(a, b, strict=True))


def _decides_shapes(fact: Fact) -> bool:
    return fact.constant is not None and fact.constant.size <= DATA_LIMIT and fact.constant.dtype.kind in "iufb"


def _tensor(fact: Fact) -> bytes:
    assert fact.constant is not None
    return bytes(onnx.numpy_helper.from_array(fact.constant).SerializeToString())


# Shapes that follow from partly known shape arithmetic, which the standard's inference does not see
def _reshape(node: ir.Node, inputs: Sequence[Fact | None]) -> Shape | None:
    data, target = inputs[0], inputs[1]
    if data is None or target is None or target.partial is None:
        return None
    zero_is_copy = not node.attributes.get_int("allowzero", 0)
    shape: list[int | None] = []
    for axis, entry in enumerate(target.partial.entries()):
        if entry == 0 and zero_is_copy:
            shape.append(data.shape[axis] if data.shape is not None and axis < len(data.shape) else None)
        else:
            shape.append(entry if entry is not None and entry > 0 else None)
    # an unknown entry may be 0 (copy) or -1 (the rest); both leave the other entries as they are
    return tuple(shape)


def _expand(_node: ir.Node, inputs: Sequence[Fact | None]) -> Shape | None:
    data, target = inputs[0], inputs[1]
    if data is None or data.shape is None or target is None or target.partial is None:
        return None
    entries = target.partial.entries()
    rank = max(len(entries), len(data.shape))
    a, b = ((1,) * (rank - len(s)) + tuple(s) for s in (data.shape, entries))
    return tuple(_broadcast(x, y) for x, y in zip(a, b, strict=True))


def _broadcast(a: int | None, b: int | None) -> int | None:
    if a == 1:
        return b
    if b == 1:
        return a
    return a if a is not None else b


def _constant_of_shape(_node: ir.Node, inputs: Sequence[Fact | None]) -> Shape | None:
    target = inputs[0]
    return None if target is None or target.partial is None else tuple(target.partial.entries())


def _resize(node: ir.Node, inputs: Sequence[Fact | None]) -> Shape | None:
    sizes = inputs[3] if len(inputs) > 3 else None
    policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
    if sizes is None or sizes.partial is None or policy != "stretch" or "axes" in node.attributes:
        return None
    return tuple(sizes.partial.entries())


def _is_mistaken(node: ir.Node, inputs: Sequence[Fact | None]) -> bool:
    """Where the standard's inference gives wrong dimensions, as its own test cases show; the ranks are right."""
    if node.op_type == "STFT":
        return True  # it gives the two-sided length for a one-sided result
    if node.op_type == "ConvTranspose":
        return node.attributes.get_string("auto_pad", "NOTSET").startswith("SAME")  # not always input size times stride
    return node.op_type == "Attention" and any(f is not None and f.static_shape is None for f in inputs)  # 0 for open ones


OWN_SHAPES: Mapping[str, Callable[[ir.Node, Sequence[Fact | None]], Shape | None]] = {
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Reshape": _reshape,
    "Resize": _resize,
}


# Integer arithmetic on partly known elements
_MOVERS = {
    "Concat": None,
    "Flatten": 1,
    "Gather": 1,
    "Reshape": 1,
    "Slice": 1,
    "Squeeze": 1,
    "Transpose": 1,
    "Unsqueeze": 1,
}
"""Operators that only move elements, and how many of their inputs hold elements to be moved (``None``: all)."""


_ARITHMETIC = {"Add", "Sub", "Mul", "Div", "Max", "Min"}


def shape_of(node: ir.Node, fact: Fact | None) -> Partial | None:
    """What is known of the result of ``Shape`` or ``Size``."""
    if fact is None or fact.shape is None:
        return None
    if node.op_type == "Size":
        sizes = fact.static_shape
        return None if sizes is None else Partial(np.array(np.prod(sizes, dtype=np.int64)), np.array(True))
    window = slice(
        node.attributes.get_int("start", 0), node.attributes["end"].as_int() if "end" in node.attributes else None
    )
    dims = fact.shape[window]
    values = np.array([1 if d is None else d for d in dims], np.int64)
    return Partial(values, np.array([d is not None for d in dims], bool))


def partial(node: ir.Node, inputs: Sequence[Fact | None], attributes: Mapping[str, Any]) -> Partial | None:
    """What is known of the elements of an integer result whose inputs are partly known."""
    if node.op_type in ("Shape", "Size"):
        return shape_of(node, inputs[0])
    views = [_view(f) for f in inputs]
    if all(v is None or v.known.all() for v in views):
        return None  # all known: folded elsewhere; or nothing known at all
    if node.op_type == "Cast" and views[0] is not None:
        code = attributes["to"]
        return views[0] if code in (onnx.TensorProto.INT64, onnx.TensorProto.INT32) else None
    if node.op_type in _MOVERS:
        count = _MOVERS[node.op_type]
        moved = len(inputs) if count is None else count
        function = reference(node)
        settings = [None if f is None else f.constant for f in inputs[moved:]]
        if function is None or None in views[:moved]:
            return None
        if any(f is not None and s is None for f, s in zip(inputs[moved:], settings, strict=True)):
            return None
        data = [v for v in views[:moved] if v is not None]
        try:
            values = function(*(v.values.astype(np.int64) for v in data), *settings, **attributes)
            mask = function(*(v.known.astype(np.int64) for v in data), *settings, **attributes)
        except Exception:
            return None  # an index outside the shape, for one: it fails in the run, with the adapter's own message
        return Partial(np.asarray(values), np.asarray(mask).astype(bool))
    if node.op_type in _ARITHMETIC and None not in views:
        return _calculate(node, [v for v in views if v is not None])
    return None


def _view(fact: Fact | None) -> Partial | None:
    if fact is None:
        return None
    if fact.constant is not None and fact.constant.dtype.kind in "iu" and fact.constant.size <= DATA_LIMIT:
        return Partial(fact.constant, np.ones(fact.constant.shape, bool))
    return fact.partial


@functools.cache
def _operation(op_type: str) -> Callable[..., Any]:
    table = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum}
    return table.get(op_type, _divide)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    safe = np.where(b == 0, 1, b)
    return np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe))  # integer division truncates towards zero


def _calculate(node: ir.Node, views: list[Partial]) -> Partial | None:
    if len(views) != 2:
        return None
    a, b = views
    mask = np.logical_and(a.known, b.known)
    if node.op_type == "Div":
        mask = mask & (b.values != 0)
    with np.errstate(all="ignore"):
        return Partial(np.asarray(_operation(node.op_type)(a.values, b.values), np.int64), mask)
