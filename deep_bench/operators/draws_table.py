"""How each operator's inputs are drawn, where not any number will do; which must be constant; and how large they may be.

The largest elements are such that an operator's result is finite and yet near overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log, prod
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from deep_bench.tensor import is_float, is_integer

if TYPE_CHECKING:
    from deep_bench.operators.argument import Argument, Draw
    from deep_bench.operators.case import Case

Rule = str | Callable[["Case"], str]

SETTINGS: Mapping[str, frozenset[str]] = {
    operator: frozenset(names.split())
    for operator, names in {
        "AffineGrid": "size",
        "BlackmanWindow": "size",
        "CenterCropPad": "shape",
        "Col2Im": "image_shape block_shape",
        "ConstantOfShape": "input",
        "CumProd": "axis",
        "CumSum": "axis",
        "DFT": "dft_length axis",
        "Expand": "shape",
        "HammingWindow": "size",
        "HannWindow": "size",
        "MaxUnpool": "output_shape",
        "MelWeightMatrix": "num_mel_bins dft_length sample_rate lower_edge_hertz upper_edge_hertz",
        "NonMaxSuppression": "max_output_boxes_per_class iou_threshold score_threshold",
        "OneHot": "depth",
        "Pad": "pads axes",
        "Range": "start limit delta",
        "ReduceL1": "axes",
        "ReduceL2": "axes",
        "ReduceLogSum": "axes",
        "ReduceLogSumExp": "axes",
        "ReduceMax": "axes",
        "ReduceMean": "axes",
        "ReduceMin": "axes",
        "ReduceProd": "axes",
        "ReduceSum": "axes",
        "ReduceSumSquare": "axes",
        "Reshape": "shape",
        "Resize": "roi scales sizes",
        "STFT": "frame_step frame_length",
        "Slice": "starts ends axes steps",
        "Split": "split",
        "SplitToSequence": "split",
        "Squeeze": "axes",
        "Tile": "repeats",
        "TopK": "K",
        "Trilu": "k",
        "Unsqueeze": "axes",
    }.items()
}
"""Operator to the inputs that decide what shape its result has, or what it does: numbers drawn for them mean nothing."""


def is_setting(operator: str | Callable[..., object], name: str) -> bool:
    """Whether an input must be a constant.

    Example:
        >>> is_setting("Reshape", "shape"), is_setting("Reshape", "data")
        (True, False)
    """
    return isinstance(operator, str) and name in SETTINGS.get(operator, ())


def draw_of(case: Case, index: int) -> Draw:
    """The draw for one input of a case.

    Example:
        >>> from deep_bench.operators.case import Case
        >>> draw_of(Case.of("Gather", (100, 8), (4,)), 1)
        'indices:100'
    """
    argument = case.arguments[index]
    if argument is None or not isinstance(case.operator, str):
        return "normal"
    if case.operator in _SQUARES:
        return "positive" if _is_squared(case, index) else "normal"
    rule = RULES.get(case.operator, {}).get(argument.spec.name, "normal")
    return rule if isinstance(rule, str) else rule(case)


def _argument(case: Case, name: str) -> Argument:
    return next(a for a in case.arguments if a is not None and a.spec.name == name)


def _below(name: str, axis: int) -> Rule:
    return lambda case: f"below:{_argument(case, name).shape[axis]}"


def _lengths(name: str, axis: int) -> Rule:
    return lambda case: f"lengths:{_argument(case, name).shape[axis]}"


def _axis_indices(default: int) -> Rule:
    return lambda case: f"indices:{_argument(case, 'data').shape[case.attributes.get('axis', default)]}"


def _gathered_rows(case: Case) -> str:
    start, depth = case.attributes.get("batch_dims", 0), _argument(case, "indices").shape[-1]
    return ":".join(["rows", *map(str, _argument(case, "data").shape[start : start + depth])])


def _scattered(case: Case) -> str:
    axis = case.attributes.get("axis", 0)
    size = _argument(case, "data").shape[axis]
    return f"distinct:{size}:{axis}" if case.attributes.get("reduction", "none") == "none" else f"indices:{size}"


def _scattered_rows(case: Case) -> str:
    kind = "distinct_rows" if case.attributes.get("reduction", "none") == "none" else "rows"
    depth = _argument(case, "indices").shape[-1]
    return ":".join([kind, *map(str, _argument(case, "data").shape[:depth])])


def _shift(case: Case) -> str:
    return f"below:{8 * _argument(case, 'Y').dtype.itemsize}"


def _divisor(case: Case) -> str:
    return "nonzero" if is_integer(_argument(case, "B").dtype) else "normal"


def _base(case: Case) -> str:
    return "normal" if is_integer(_argument(case, "X").dtype) else "domain:0:inf"


def _exponent(case: Case) -> str:
    return "below:4" if is_integer(_argument(case, "Y").dtype) else "between:-2:2"


def _depth(case: Case) -> str:
    depth = _argument(case, "depth").value
    return f"indices:{int(depth.reshape(()))}" if depth is not None else "normal"


def _write_index(case: Case) -> str:
    axis = case.attributes.get("axis", -2)
    room = _argument(case, "past_cache").shape[axis] - _argument(case, "update").shape[axis]
    return f"below:{room + 1}"


def _rois(case: Case) -> str:
    height, width = _argument(case, "X").shape[-2:]
    scale = case.attributes.get("spatial_scale", 1.0)
    return f"boxes:{width / scale}:{height / scale}"


def _steps(case: Case) -> str:
    return f"lengths:{_argument(case, 'X').shape[1 if case.attributes.get('layout', 0) else 0]}"


def _time(case: Case) -> str:
    return f"lengths:{_argument(case, 'input').shape[case.attributes.get('time_axis', 0)]}"


def _by_fan_in(name: str) -> Rule:
    return lambda case: f"scaled:{_argument(case, name).shape[-1]}"


def _per_head(case: Case) -> str:
    return f"scaled:{max(1, _argument(case, 'key').shape[-1] // case.attributes.get('kv_num_heads', 1))}"


def _unpooled(case: Case) -> str:
    """Places in the tensor that was pooled, as the attributes imply its size."""
    batch, channels, *sizes = _argument(case, "X").shape
    rank = len(sizes)
    strides, pads = case.attributes.get("strides", (1,) * rank), case.attributes.get("pads", (0,) * (2 * rank))
    kernel = case.attributes["kernel_shape"]
    pooled = ((sizes[i] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank] for i in range(rank))
    return f"distinct_places:{batch * channels * prod(pooled)}"


def _codes(*names: str) -> dict[str, Rule]:
    """Quantised numbers use all of their type."""
    return {name: _code(name) for name in names}


def _code(name: str) -> Rule:
    return lambda case: _whole_range(_argument(case, name))


def _whole_range(argument: Argument) -> str:
    if not is_integer(argument.dtype) or argument.dtype.itemsize > 2:
        return "normal"
    info = ml_dtypes.iinfo(argument.dtype)
    return f"between:{info.min}:{info.max}"


_RECURRENT: dict[str, Rule] = {"W": _by_fan_in("W"), "R": _by_fan_in("R"), "sequence_lens": _steps}

RULES: Mapping[str, Mapping[str, Rule]] = {
    "Acos": {"input": "domain:-1:1"},
    "Acosh": {"input": "domain:1:inf"},
    "Asin": {"input": "domain:-1:1"},
    "Atanh": {"input": "domain:-0.99:0.99"},
    "Attention": {"attn_mask": "attention_mask", "nonpad_kv_seqlen": _lengths("K", -2)},
    "BatchNormalization": {"input_var": "positive"},
    "Bernoulli": {"input": "between:0:1"},
    "BitShift": {"Y": _shift},
    "ConvInteger": _codes("x", "w", "x_zero_point", "w_zero_point"),
    "DeformConv": {"mask": "between:0:1", "offset": "between:-2:2"},
    "DequantizeLinear": {"x_scale": "scale", **_codes("x", "x_zero_point")},
    "Div": {"B": _divisor},
    "Dropout": {"ratio": "between:0:0.9"},
    "GRU": _RECURRENT,
    "Gather": {"indices": _axis_indices(0)},
    "GatherElements": {"indices": _axis_indices(0)},
    "GatherND": {"indices": _gathered_rows},
    "GridSample": {"grid": "between:-1.2:1.2"},
    "LSTM": _RECURRENT,
    "LinearAttention": {"beta": "between:0:1", "decay": "between:-1:0", "key": _per_head},
    "Log": {"input": "domain:0:inf"},
    "MatMulInteger": _codes("A", "B", "a_zero_point", "b_zero_point"),
    "MaxUnpool": {"I": _unpooled},
    "Mod": {"B": _divisor},
    "NegativeLogLikelihoodLoss": {"input": "log_probabilities:1", "target": _below("input", 1), "weight": "positive"},
    "NonMaxSuppression": {"boxes": "boxes:1:1", "scores": "between:0:1"},
    "OneHot": {"indices": _depth},
    "Pow": {"X": _base, "Y": _exponent},
    "QLinearConv": {
        "B": "between:-1000:1000",
        **dict.fromkeys(("x_scale", "w_scale", "y_scale"), "scale"),
        **_codes("x", "w", "x_zero_point", "w_zero_point", "y_zero_point"),
    },
    "QLinearMatMul": {
        **dict.fromkeys(("a_scale", "b_scale", "y_scale"), "scale"),
        **_codes("a", "b", "a_zero_point", "b_zero_point", "y_zero_point"),
    },
    "QuantizeLinear": {"y_scale": "scale", **_codes("y_zero_point")},
    "RNN": _RECURRENT,
    "ReduceLogSum": {"data": "domain:0:inf"},
    "ReverseSequence": {"sequence_lens": _time},
    "RoiAlign": {"batch_indices": _below("X", 0), "rois": _rois},
    "RotaryEmbedding": {
        "cos_cache": "between:-1:1",
        "position_ids": _below("cos_cache", 0),
        "sin_cache": "between:-1:1",
    },
    "ScatterElements": {"indices": _scattered},
    "ScatterND": {"indices": _scattered_rows},
    "SoftmaxCrossEntropyLoss": {"labels": _below("scores", 1), "weights": "positive"},
    "Sqrt": {"X": "domain:0:inf"},
    "TensorScatter": {"write_indices": _write_index},
    "ai.onnx.ml::ArrayFeatureExtractor": {"Y": _below("X", -1)},
    "ai.onnx.preview.training::Momentum": {"R": "positive", "T": "below:1000"},
}
"""Operator to input to its draw: a name, or a function of the case that gives one."""


_SQUARES: Mapping[str, int] = {"ai.onnx.preview.training::Adagrad": 3, "ai.onnx.preview.training::Adam": 4}
"""Optimizers, and how many tensors they take for each parameter: the last one holds sums of squares."""


def _is_squared(case: Case, index: int) -> bool:
    """Whether an optimizer's input is its learning rate, its step, or a sum of squares."""
    parameters = (len(case.arguments) - 2) // _SQUARES[str(case.operator)]
    return index < 2 or index >= len(case.arguments) - parameters


def _names(written: str) -> frozenset[str]:
    return frozenset(written.split())


_MARGIN = 4.0
"""Kept free, for what rounding and the order of a sum add."""


@dataclass(frozen=True, slots=True)
class _MagnitudeGrowth:
    """How a result grows: like ``terms`` times a product of ``degree`` elements."""

    terms: float = 1.0
    degree: float = 1.0

    def limit(self, top: float) -> float:
        return float((top / (_MARGIN * max(self.terms, 1.0))) ** (1.0 / max(self.degree, 1.0)))


def limit_of(case: Case, index: int) -> float | None:
    """The largest magnitude for the elements of one input; ``None`` where all of the type may be used.

    An operator that is not known is taken for one that squares what it is given and adds all of it up.

    Example:
        >>> from deep_bench.operators.case import Case
        >>> from math import sqrt, isclose
        >>> isclose(limit_of(Case.of("Gemm", (2, 15), (15, 2), dtype="float16"), 0), sqrt(65504 / 64))
        True
        >>> limit_of(Case.of("Exp", (2,), dtype="float16"), 0) < 11
        True
    """
    argument = case.arguments[index]
    if argument is None or not (is_float(argument.dtype) or is_integer(argument.dtype)) or argument.dtype == object:
        return None
    if case.operator in _QUANTISED and argument.dtype.itemsize <= 2:
        return None
    top = _top(case, argument.dtype)
    if case.operator in _EXPONENTIAL:
        return log(top) - 1
    growth = _growth(case)
    return growth.limit(top)


def _top(case: Case, dtype: np.dtype) -> float:
    """The largest number of the narrowest floating-point type that is read or written; of its own type for an integer."""
    if not is_float(dtype):
        return float(ml_dtypes.iinfo(dtype).max)
    input_dtypes = [a.dtype for a in case.arguments if a is not None and is_float(a.dtype)]
    return min(float(ml_dtypes.finfo(t).max) for t in [*input_dtypes, *(r.dtype for r in case.results if is_float(r.dtype))])


def _growth(case: Case) -> _MagnitudeGrowth:
    shapes = [a.shape if a is not None else () for a in case.arguments]
    elements = float(max((prod(shape) for shape in shapes), default=1))
    if not isinstance(case.operator, str):
        return _MagnitudeGrowth(elements, 2)
    reduction = case.attributes.get("reduction", "none")
    if case.operator in _SCATTERING and reduction != "none":
        return _MagnitudeGrowth(1, elements + 1) if reduction == "mul" else _MagnitudeGrowth(elements)
    if case.operator in _PASSING:
        return _MagnitudeGrowth()
    if case.operator in _SUMMING:
        return _MagnitudeGrowth(elements)
    if case.operator in _TERMS:
        return _MagnitudeGrowth(_TERMS[case.operator](case) * _factor(case), 2)
    if case.operator in _LOSSES:
        return _MagnitudeGrowth(elements, len(case.arguments) - 1)  # a weight for each class multiplies
    if case.operator in _DEGREES:
        return _MagnitudeGrowth(elements, _DEGREES[case.operator](case))
    if case.operator == "Einsum":
        return _MagnitudeGrowth(float(prod(max(shape, default=1) for shape in shapes)) * elements, len(shapes))
    return _MagnitudeGrowth(elements, 2)


def _factor(case: Case) -> float:
    return max(1.0, *(abs(float(case.attributes.get(name, 1.0))) for name in ("alpha", "beta")))


def _shape(case: Case, index: int) -> tuple[int, ...]:
    argument = case.arguments[index]
    return argument.shape if argument is not None else ()


def _gemm(case: Case) -> float:
    return _shape(case, 0)[0 if case.attributes.get("transA", 0) else 1] + 1


def _convolution(case: Case) -> float:
    return prod(_shape(case, 1)[1:]) + 1


def _transposed_convolution(case: Case) -> float:
    return prod(_shape(case, 1)) / max(1, _shape(case, 1)[1]) + 1


def _head(case: Case) -> float:
    return _shape(case, 0)[-1]


def _last(case: Case) -> float:
    return prod(_shape(case, 0))


_TERMS: Mapping[str, Callable[[Case], float]] = {
    "Attention": _head,
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Div": lambda case: 1.0,  # noqa: ARG005
    "Gemm": _gemm,
    "MatMul": lambda case: (_shape(case, 0) or (1,))[-1],
    "Mul": lambda case: 1.0,  # noqa: ARG005
    "PRelu": lambda case: 1.0,  # noqa: ARG005
    "ReduceL2": _last,
    "ReduceSumSquare": _last,
}
"""Operators that add up products of two elements, and how many of them."""


def _order(case: Case) -> float:
    return max(2, case.attributes.get("p", 2))


_DEGREES: Mapping[str, Callable[[Case], float]] = {
    "CumProd": lambda case: prod(_shape(case, 0)),
    "Det": lambda case: _shape(case, 0)[-1],
    "LinearAttention": lambda case: 2 * _shape(case, 0)[1] + 2,
    "GlobalLpPool": _order,
    "LpNormalization": _order,
    "LpPool": _order,
    "Pow": lambda case: 4,  # noqa: ARG005
    "ReduceProd": lambda case: prod(_shape(case, 0)),
}
"""Operators that multiply several elements, and how many: the state of a linear attention is multiplied at each step."""


_PASSING = _names(
    "Abs ArgMax ArgMin Cast CastLike Ceil Celu Clip Concat DepthToSpace Elu Equal Erf Expand Flatten Floor Gather "
    "GatherElements GatherND Gelu GlobalMaxPool Greater GreaterOrEqual HardSigmoid HardSwish Hardmax Identity IsInf IsNaN "
    "LeakyRelu Less LessOrEqual Log Max MaxPool Min Mish Neg Pad ReduceMax ReduceMin Relu Reshape Round ScatterElements "
    "ScatterND Selu Sigmoid Sign Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Swish Tanh "
    "ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where"
)
"""Operators whose result is about as large as what they are given."""


_SUMMING = _names(
    "Add AveragePool CumSum GlobalAveragePool LogSoftmax Mean ReduceL1 ReduceLogSum ReduceMean ReduceSum Sub Sum"
)
"""Operators that add up elements."""


_SCATTERING = frozenset({"ScatterElements", "ScatterND"})
_LOSSES = frozenset({"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})

_EXPONENTIAL = frozenset({"Cosh", "Exp", "ReduceLogSumExp", "Sinh"})
"""Operators that overflow where the exponential function does."""


_QUANTISED = frozenset({"ConvInteger", "DequantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul"})
"""Operators that accumulate in a wider type."""
