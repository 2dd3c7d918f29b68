"""Operators that are wrong on purpose: at least one for each family of the reference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[..., Any]


@dataclass(frozen=True)
class Mutation:
    """A fault in one operator.

    Args:
        operator: Which.
        fault: What is wrong.
        change: From the reference's function to the wrong one.
    """

    operator: str
    fault: str
    change: Callable[[Function], Function]

    def __str__(self) -> str:
        return f"{self.operator}: {self.fault}"


def without(*names: str) -> Callable[[Function], Function]:
    """Ignores attributes."""
    return lambda f: lambda *x, **a: f(*x, **{n: v for n, v in a.items() if n not in names})


def having(**fixed: Any) -> Callable[[Function], Function]:
    """Takes attributes to be these, whatever they are."""
    return lambda f: lambda *x, **a: f(*x, **{**a, **fixed})


def defaulting(**defaults: Any) -> Callable[[Function], Function]:
    """Takes attributes that are left out to be these."""
    return lambda f: lambda *x, **a: f(*x, **{**defaults, **a})


def setting(name: str, change: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Misreads an attribute."""
    return lambda f: lambda *x, **a: f(*x, **({**a, name: change(a[name])} if a.get(name) is not None else a))


def without_input(index: int) -> Callable[[Function], Function]:
    """Ignores an input."""
    return lambda f: lambda *x, **a: f(*(None if i == index else v for i, v in enumerate(x)), **a)


def with_input(index: int, change: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Misreads an input."""
    return lambda f: lambda *x, **a: f(*(change(v) if i == index and v is not None else v for i, v in enumerate(x)), **a)


def with_output(change: Callable[..., Any]) -> Callable[[Function], Function]:
    """Spoils the (first) result."""

    def wrap(f: Function) -> Function:
        def wrong(*x: Any, **a: Any) -> Any:
            found = f(*x, **a)
            return (change(found[0]), *found[1:]) if isinstance(found, tuple) else change(found)

        return wrong

    return wrap


def _shifted(pads: tuple[int, ...]) -> tuple[int, ...]:
    """The same amount of padding, all of it in front."""
    half = len(pads) // 2
    return (*(a + b for a, b in zip(pads[:half], pads[half:], strict=True)), *(0,) * half)


def _floored(f: Function) -> Function:
    return lambda a, b: np.floor_divide(a, b) if a.dtype.kind in "iu" else f(a, b)


def _as_signed(f: Function) -> Function:
    def signed(x: np.ndarray) -> np.ndarray:
        return x.view(f"i{x.dtype.itemsize}") if x.dtype.kind == "u" else x

    return lambda a, b: f(signed(a), signed(b))


def _half_up(f: Function) -> Function:
    return lambda x: np.floor(x + np.asarray(0.5, x.dtype))


def _rolled(array: np.ndarray) -> np.ndarray:
    """Every element one place further."""
    return np.roll(array, 1)


def _scaled(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: (array * factor).astype(array.dtype)


def _upper_left(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)


MUTATIONS: Mapping[str, tuple[Mutation, ...]] = {
    "elementwise": (
        Mutation("Div", "rounds integers down instead of towards zero", _floored),
        Mutation("Greater", "takes unsigned numbers as signed", _as_signed),
        Mutation("Round", "rounds halves up instead of to even", _half_up),
        Mutation("Mod", "gives the dividend's sign", having(fmod=1)),
        Mutation("BitShift", "always shifts left", having(direction="LEFT")),
        Mutation("Where", "swaps its branches", lambda f: lambda c, a, b: f(c, b, a)),
    ),
    "activation": (
        Mutation("Softmax", "normalises over axis 1 by default", defaulting(axis=1)),
        Mutation("LeakyRelu", "has another slope", setting("alpha", lambda alpha: 10 * alpha)),
        Mutation("Gelu", "is always the tanh approximation", lambda f: lambda x, **a: f(x, approximate="tanh") * 1.01),
        Mutation("HardSigmoid", "ignores beta", without("beta")),
    ),
    "attention": (
        Mutation("Attention", "ignores the causal mask", without("is_causal")),
        Mutation("Attention", "ignores the scale", without("scale")),
        Mutation("RotaryEmbedding", "interleaves always", having(interleaved=1)),
    ),
    "cast": (Mutation("Cast", "lets narrow formats overflow", having(saturate=0)),),
    "control": (
        Mutation("If", "takes the other branch", lambda f: lambda c, **b: f(np.logical_not(c), **b)),
        Mutation("Scan", "goes forward only", without("scan_input_directions")),
        Mutation("Loop", "stops one short", with_input(0, lambda n: n - 1)),
    ),
    "convolution": (
        Mutation("Conv", "pads in front only", setting("pads", _shifted)),
        Mutation("Conv", "ignores strides", without("strides")),
        Mutation("ConvTranspose", "ignores output padding", without("output_padding")),
        Mutation("ConvTranspose", "swaps the kernel's axes", with_input(1, lambda w: np.flip(w, -1))),
        Mutation("DeformConv", "ignores the mask", without_input(4)),
        Mutation("Col2Im", "ignores dilations", without("dilations")),
    ),
    "generate": (
        Mutation("Range", "is one step off", with_output(_rolled)),
        Mutation("EyeLike", "counts diagonals downwards", setting("k", lambda k: -k)),
        Mutation("HannWindow", "is symmetric always", having(periodic=0)),
    ),
    "image": (
        Mutation("Resize", "scales asymmetrically by default", defaulting(coordinate_transformation_mode="asymmetric")),
        Mutation("Resize", "rounds halves up in nearest mode", defaulting(nearest_mode="round_prefer_ceil")),
        Mutation("GridSample", "aligns corners always", having(align_corners=1)),
        Mutation("RoiAlign", "ignores the scale", without("spatial_scale")),
        Mutation("NonMaxSuppression", "ignores the limit per class", with_input(2, lambda n: n + 1)),
        Mutation("AffineGrid", "aligns corners always", having(align_corners=1)),
    ),
    "indexing": (
        Mutation("Gather", "takes indices from the front only", with_input(1, lambda i: np.maximum(i, 0))),
        Mutation("ScatterElements", "ignores the reduction", without("reduction")),
        Mutation("GatherND", "ignores the batch dimensions", without("batch_dims")),
        Mutation("OneHot", "ignores the axis", without("axis")),
        Mutation("Unique", "leaves the values in their order", having(sorted=0)),
        Mutation("Compress", "inverts the condition", with_input(1, np.logical_not)),
    ),
    "linear": (
        Mutation("Gemm", "ignores transB", without("transB")),
        Mutation("MatMulInteger", "ignores the zero point", without_input(2)),
        Mutation("Einsum", "transposes its last operand", lambda f: lambda *x, **a: f(*x[:-1], x[-1].T, **a)),
    ),
    "loss": (
        Mutation("SoftmaxCrossEntropyLoss", "ignores the weights", without_input(2)),
        Mutation("NegativeLogLikelihoodLoss", "counts ignored targets", without("ignore_index")),
    ),
    "normalization": (
        Mutation("InstanceNormalization", "uses the unbiased variance", with_output(_scaled(0.95))),
        Mutation("LayerNormalization", "normalises the last axis only", without("axis")),
        Mutation("BatchNormalization", "forgets the mean", with_input(3, np.zeros_like)),
        Mutation("LRN", "ignores alpha", without("alpha")),
        Mutation("GroupNormalization", "has one group", having(num_groups=1)),
    ),
    "pooling": (
        Mutation("AveragePool", "counts the padding always", having(count_include_pad=1)),
        Mutation("MaxPool", "rounds lengths down always", without("ceil_mode")),
        Mutation("MaxPool", "ignores dilations", without("dilations")),
        Mutation("LpPool", "has the 2-norm always", without("p")),
        Mutation("GlobalMaxPool", "averages", lambda f: lambda x: x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)),
    ),
    "quantize": (
        Mutation("QuantizeLinear", "ignores the zero point", with_input(2, np.zeros_like)),
        Mutation("DequantizeLinear", "ignores the zero point", without_input(2)),
        Mutation("QLinearMatMul", "is off by a step", with_output(lambda y: y + np.asarray(1, y.dtype))),
        Mutation("DynamicQuantizeLinear", "takes the range without zero", with_input(0, lambda x: x + 1)),
    ),
    "recurrent": (
        Mutation("LSTM", "swaps two gates", with_input(1, lambda w: np.roll(w, w.shape[1] // 4, 1))),
        Mutation("LSTM", "ignores the peepholes", without_input(7)),
        Mutation("GRU", "ignores the bias", without_input(3)),
        Mutation("RNN", "ignores the layout", without("layout")),
    ),
    "reduction": (
        Mutation("TopK", "is off by one", with_output(_rolled)),
        Mutation("ReduceMean", "divides by one less", with_output(_scaled(1.5))),
        Mutation("ReduceSum", "takes no axes for none", defaulting(noop_with_empty_axes=1)),
        Mutation("ArgMax", "takes the first of equals always", without("select_last_index")),
        Mutation("CumSum", "includes the element itself always", without("exclusive")),
    ),
    "sequence": (
        Mutation("SequenceInsert", "appends always", without_input(2)),
        Mutation("SplitToSequence", "keeps dimensions always", without("keepdims")),
        Mutation("ConcatFromSequence", "never stacks", without("new_axis")),
    ),
    "shape": (
        Mutation("Pad", "pads in front only", with_input(1, lambda p: np.array(_shifted(tuple(p.tolist())), p.dtype))),
        Mutation("Transpose", "swaps the last two axes only", lambda f: lambda x, **a: _upper_left(x)),
        Mutation("DepthToSpace", "has the other order", lambda f: lambda x, mode="DCR", **a: f(x, mode=_OTHER[mode], **a)),
        Mutation("Slice", "ignores steps", without_input(4)),
        Mutation("Reshape", "takes 0 for a copied dimension always", without("allowzero")),
        Mutation("Tile", "repeats axes in reverse", with_input(1, lambda n: n[::-1])),
    ),
    "signal": (
        Mutation("DFT", "forgets to divide by the length", lambda f: lambda *x, **a: _unscaled(f, x, a)),
        Mutation("STFT", "ignores the window", without_input(2)),
    ),
    "text": (
        Mutation("StringNormalizer", "keeps the case", without("case_change_action")),
        Mutation("RegexFullMatch", "matches a beginning", setting("pattern", lambda p: f"{p}.*")),
        Mutation("StringSplit", "splits everywhere", without("maxsplit")),
        Mutation("StringConcat", "swaps", lambda f: lambda x, y: f(y, x)),
        Mutation("TfIdfVectorizer", "counts always", having(mode="TF")),
    ),
}
"""Family to its mutations."""

_OTHER = {"DCR": "CRD", "CRD": "DCR"}


def _unscaled(f: Function, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    found = f(*inputs, **attributes)
    return found * found.size if attributes.get("inverse") else found


def mutated(mutation: Mutation, function: Function) -> Function:
    """The wrong function, with the signature of the right one."""
    return functools.wraps(function)(mutation.change(function))
