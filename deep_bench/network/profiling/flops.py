"""How much arithmetic a node asks for, by a formula for its operator and the shapes of its values.

A multiplication with an addition counts as two operations, and so does every other arithmetic operation, comparison and
elementary function as one: what a definition written in scalars would do. What an implementation really does may be less
(Winograd's convolutions, a tree of sums) or more.

Source:
    Golub and Van Loan, *Matrix Computations*, 4th ed., section 1.1.15 (products); Sze, Chen, Yang and Emer, *Efficient
    Processing of Deep Neural Networks*, Proc. IEEE 105 (2017), section II (convolutions); the definitions of the ONNX
    operators for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import onnx_ir as ir

from deep_bench.graph import attributes, operator_name

Shape = tuple[int, ...]
Shapes = Callable[[ir.Value], Shape | None]
"""The dimensions of a value, or ``None`` if not all of them are known."""


class _Unknown(Exception):
    """A shape that the formula needs is not known."""


@dataclass(frozen=True)
class _At:
    """A node with its shapes, as a formula reads it."""

    node: ir.Node
    shapes: Shapes
    attributes: Mapping[str, Any]

    def given(self, index: int) -> bool:
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def x(self, index: int = 0) -> Shape:
        """The shape of an input."""
        value = self.node.inputs[index] if self.given(index) else None
        return self._known(None if value is None else self.shapes(value))

    def y(self, index: int = 0) -> Shape:
        """The shape of an output."""
        return self._known(self.shapes(self.node.outputs[index]))

    @staticmethod
    def _known(shape: Shape | None) -> Shape:
        if shape is None:
            raise _Unknown
        return shape


def flops(node: ir.Node, shapes: Shapes) -> int | None:
    """The operations that a node asks for; ``None`` if there is no formula for its operator, or a shape is unknown.

    Args:
        node: The node; one that holds a subgraph has no formula.
        shapes: The dimensions of its values.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.network.profiling.shapes import StaticShapes
        >>> network = db.load("digits-cnn").with_sizes({"batch": 1})
        >>> head = network.nodes[-1]
        >>> head.op_type, flops(head, StaticShapes(network))  # 64 features, 10 classes: 2 * 64 * 10, and 10 for the bias
        ('Gemm', 1290)
    """
    formula = _FORMULAS.get(operator_name(node))
    if formula is None:
        return None
    try:
        return formula(_At(node, shapes, attributes(node)))
    except _Unknown:
        return None


def _matmul(at: _At) -> int:
    return 2 * prod(at.y()) * at.x()[-1]


def _gemm(at: _At) -> int:
    a, y = at.x(), at.y()
    inner = a[0] if at.attributes.get("transA", 0) else a[1]
    scaled = sum(at.attributes.get(name, 1.0) != 1.0 for name in ("alpha", "beta"))
    return 2 * prod(y) * inner + prod(y) * (at.given(2) + scaled)


def _einsum(at: _At) -> int:
    terms, _, result = at.attributes["equation"].replace(" ", "").partition("->")
    if "." in terms:
        raise _Unknown
    sizes = {letter: size for i, term in enumerate(terms.split(",")) for letter, size in zip(term, at.x(i), strict=True)}
    summed = len(set(sizes) - set(result)) > 0
    return prod(sizes.values()) * (len(at.node.inputs) - 1 + summed)


def _conv(at: _At) -> int:
    weight, y = at.x(1), at.y()
    return 2 * prod(y) * prod(weight[1:]) + prod(y) * at.given(2)


def _conv_transpose(at: _At) -> int:
    x, weight, y = at.x(), at.x(1), at.y()
    return 2 * prod(x) * prod(weight[1:]) + prod(y) * at.given(2)


def _pool(per_element: int) -> Callable[[_At], int]:
    """Each output reads a window: one operation an element (a comparison, or an addition), and a division for a mean."""
    return lambda at: prod(at.y()) * (prod(at.attributes["kernel_shape"]) + per_element)


def _lp_pool(at: _At) -> int:
    return prod(at.y()) * (3 * prod(at.attributes["kernel_shape"]) + 1)


def _elementwise(operations: int) -> Callable[[_At], int]:
    return lambda at: operations * prod(at.y())


def _of_input(operations: int, last: int = 0) -> Callable[[_At], int]:
    """So many for each element of the input, and ``last`` for each of the result."""
    return lambda at: operations * prod(at.x()) + last * prod(at.y())


def _variadic(at: _At) -> int:
    mean = at.node.op_type == "Mean"
    return prod(at.y()) * (len(at.node.inputs) - 1 + mean)


def _batch_normalization(at: _At) -> int:
    """Of running statistics: two operations for each channel's factor, four for each element."""
    x = at.x()
    if at.attributes.get("training_mode", 0):
        return 8 * prod(x) + 6 * x[1]  # two sums more, a difference and a square; the running statistics
    return 4 * prod(x) + 2 * x[1]


def _layer_normalization(at: _At) -> int:
    """Two sums, a difference, a square, a division, the scale and the bias for each element."""
    return (6 + at.given(2)) * prod(at.x())


def _lrn(at: _At) -> int:
    """A square, a window of so many additions, a product, a sum, a power and a division for each element."""
    return prod(at.x()) * (at.attributes["size"] + 4)


def _attention(at: _At) -> int:
    """Scores and their product with the values, scaling and Softmax between them; [batch, heads, length, size]."""
    q, k, v = at.x(0), at.x(1), at.x(2)
    if len(q) == 4:
        scores, size, value_size = prod(q[:3]) * k[2], q[3], v[3]
    else:
        heads = at.attributes["q_num_heads"]
        groups = at.attributes.get("kv_num_heads", heads)
        scores, size, value_size = q[0] * heads * q[1] * k[1], q[2] // heads, v[2] // groups
    if at.given(4):
        raise _Unknown  # a cache makes the keys longer than they are declared
    masked = 1 if at.given(3) or at.attributes.get("is_causal", 0) else 0
    return scores * (2 * size + 2 * value_size + 6 + masked)


_GATES = {"RNN": (1, 2), "GRU": (3, 17), "LSTM": (4, 22)}
"""Gates, and the operations beside the products for each element of the state: sums, activations, the new state.

An addition of the two products for each gate; 4 for a sigmoid and 1 for tanh; GRU: a product with the reset gate and 4 to
blend; LSTM: 3 for the cell and 1 for the output.
"""


def _recurrent(at: _At) -> int:
    """Two products for each gate, at every step and in every direction."""
    x, w = at.x(0), at.x(1)
    gates, rest = _GATES[at.node.op_type]
    rest += 2 * gates * at.given(3)
    directions, hidden, features = w[0], w[1] // gates, w[2]
    return directions * x[0] * x[1] * hidden * (2 * gates * (features + hidden) + rest)


def _resize(at: _At) -> int:
    """Separable interpolation: two taps a dimension that changes for ``linear``, four for ``cubic``; a copy otherwise."""
    taps = {"nearest": 0, "linear": 2, "cubic": 4}[at.attributes.get("mode", "nearest")]
    changed = sum(a != b for a, b in zip(at.x(), at.y(), strict=True))
    return prod(at.y()) * 2 * taps * changed


_NOTHING = (
    "Cast CastLike Compress Concat Constant ConstantOfShape DepthToSpace Dropout Expand EyeLike Flatten Gather "
    "GatherElements GatherND Identity MaxUnpool NonZero OneHot Pad Reshape ReverseSequence "
    "ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze"
)
_ONE = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Cos Cosh Div "
    "Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Mod Mul Neg Not Or Pow PRelu Range "
    "Reciprocal Relu Round Sign Sin Sinh Sqrt Sub Tan Tanh Where Xor"
)
_SEVERAL = {
    "Celu": 6, "Clip": 2, "Elu": 4, "Gelu": 5, "HardSigmoid": 4, "HardSwish": 5, "LeakyRelu": 2, "Mish": 4, "Selu": 5,
    "Shrink": 4, "Sigmoid": 4, "Softplus": 3, "Softsign": 3, "Swish": 5, "ThresholdedRelu": 1, "DequantizeLinear": 2,
    "QuantizeLinear": 4,
}  # fmt: skip

_FORMULAS: Mapping[str, Callable[[_At], int]] = {
    **{name: _elementwise(0) for name in _NOTHING.split()},
    **{name: _elementwise(1) for name in _ONE.split()},
    **{name: _elementwise(operations) for name, operations in _SEVERAL.items()},
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), _variadic),
    **{name: _of_input(1) for name in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ArgMax", "ArgMin")},
    **{name: _of_input(2) for name in ("ReduceL1", "ReduceSumSquare", "CumSum")},
    "ReduceMean": _of_input(1, 1),
    "ReduceL2": _of_input(2, 1),
    "ReduceLogSum": _of_input(1, 1),
    "ReduceLogSumExp": _of_input(4, 2),
    "Softmax": _of_input(5),
    "LogSoftmax": _of_input(5),
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": lambda at: 2 * prod(at.y()) * at.x()[-1],
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Conv": _conv,
    "ConvInteger": lambda at: 2 * prod(at.y()) * prod(at.x(1)[1:]),
    "QLinearConv": lambda at: 2 * prod(at.y()) * prod(at.x(3)[1:]),
    "ConvTranspose": _conv_transpose,
    "MaxPool": _pool(0),
    "AveragePool": _pool(1),
    "LpPool": _lp_pool,
    "GlobalAveragePool": _of_input(1, 1),
    "GlobalMaxPool": _of_input(1),
    "BatchNormalization": _batch_normalization,
    "InstanceNormalization": _layer_normalization,
    "GroupNormalization": _layer_normalization,
    "LayerNormalization": _layer_normalization,
    "RMSNormalization": _of_input(4),
    "MeanVarianceNormalization": _of_input(5),
    "LpNormalization": _of_input(3),
    "LRN": _lrn,
    "Attention": _attention,
    "RNN": _recurrent,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "Resize": _resize,
    "SoftmaxCrossEntropyLoss": _of_input(5, 0),
    "NegativeLogLikelihoodLoss": lambda at: 2 * prod(at.x(1)),
}
