"""Uses of operators that the standard's cases leave out, compared with the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from deep_bench.adapters.torch import TorchAdapter
from deep_bench.reference.network import ReferenceAdapter

F32, F64, F16 = np.float32, np.float64, np.float16
T = onnx.TensorProto
CODE = onnx.helper.np_dtype_to_tensor_dtype


@dataclass(frozen=True)
class Use:
    """One node: its inputs (``None`` omits one), attributes, and the element types of its outputs."""

    operator: str
    inputs: Sequence[np.ndarray | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[int] = (T.FLOAT,)
    label: str = ""
    rtol: float = 2e-5

    def __str__(self) -> str:
        return f"{self.operator}-{self.label}" if self.label else self.operator


def normal(*shape: int, seed: int = 0, dtype: Any = F32) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scalar(value: float, dtype: Any = F32) -> np.ndarray:
    return np.array(value, dtype)


NAN = np.array([np.nan, -1, 0.5, 3, np.inf, -np.inf], F32)
TIES = np.array([[3, 1, 3, 2, 1, 3], [0, 0, 0, 0, 0, 0]], F32)
SEVENS = np.array([-7, 7, -7, 7], np.int32)
THREES = np.array([3, 3, -3, -3], np.int32)


def elementwise() -> list[Use]:
    u = Use
    found = [
        u("Div", (SEVENS, THREES), outputs=(T.INT32,), label="truncates"),
        u("Mod", (SEVENS, THREES), outputs=(T.INT32,), label="divisor's sign"),
        u("Mod", (SEVENS, THREES), {"fmod": 1}, outputs=(T.INT32,), label="dividend's sign"),
        u("Mod", (normal(9), normal(9, seed=1)), {"fmod": 1}, label="float"),
        u("Clip", (NAN, scalar(-1), scalar(1)), label="nan"),
        u("Clip", (NAN, scalar(2), scalar(1)), label="crossed"),
        u("Clip", (NAN, None, scalar(1)), label="above only"),
        u("Clip", (NAN,), label="nothing"),
        u("Clip", (SEVENS, scalar(-2, np.int32), scalar(5, np.int32)), outputs=(T.INT32,), label="integers"),
        u("Pow", (normal(5), ints(2, 3, 0, -1, 1)), label="float to integer"),
        u(
            "Pow",
            (np.array([2, 3, 5], np.int32), np.array([0.5, 2, 3], F32)),
            outputs=(T.INT32,),
            label="integer to float",
        ),
        u("Pow", (np.abs(normal(4, 3)), scalar(0.5)), label="root"),
        u("Pow", (normal(4, 3), scalar(2)), label="square"),
        u("Pow", (normal(4, 3), scalar(3)), label="cube"),
        u("Round", (np.array([0.5, 1.5, 2.5, -0.5, -1.5], F32),), label="half to even"),
        u("Sign", (NAN,), label="nan"),
        u("Max", (NAN, NAN[::-1].copy(), np.zeros(6, F32)), label="nan"),
        u("Min", (NAN, NAN[::-1].copy()), label="nan"),
        u("Mean", (normal(3, 1), normal(4), normal(3, 4)), label="broadcast"),
        u("Sum", (normal(3, 4),), label="one"),
        u("Where", (np.array([[True], [False]]), normal(3), normal(2, 1)), label="broadcast"),
        u("IsInf", (NAN,), {"detect_negative": 0}, outputs=(T.BOOL,), label="positive"),
        u("IsInf", (NAN,), {"detect_negative": 0, "detect_positive": 0}, outputs=(T.BOOL,), label="none"),
        u("PRelu", (normal(2, 3, 4), normal(3, 1)), label="channels"),
        u("PRelu", (normal(2, 3, 4), normal(1)), label="one"),
        u("PRelu", (normal(2, 3, 4), normal(4)), label="last axis"),
        u("HardSigmoid", (normal(3, 9) * 4,), {"alpha": 1 / 6}, label="a sixth"),
        u("HardSigmoid", (normal(3, 9) * 4,), label="default"),
        u("Softplus", (np.array([-100, -30, 0, 19, 21, 100], F32),)),
        u("Selu", (normal(9),), {"alpha": 2.0, "gamma": 3.0}),
        u("ThresholdedRelu", (normal(9),), {"alpha": 0.25}),
        u("Shrink", (normal(9),), {"lambd": 0.5, "bias": 0.25}),
        u("Gelu", (normal(9) * 3,), {"approximate": "tanh"}),
        u("Softmax", (normal(2, 3, 4) * 50,), {"axis": 1}),
        u("LogSoftmax", (normal(2, 3, 4) * 50,), {"axis": 0}),
        u("Hardmax", (TIES,), {"axis": 1}),
        u("Cast", (np.array([1.9, -1.9, 0.5, 100.2], F32),), {"to": T.INT8}, outputs=(T.INT8,), label="towards zero"),
        u("Cast", (NAN[:4],), {"to": T.BOOL}, outputs=(T.BOOL,), label="bool"),
        u("Cast", (np.array([70000, -1e-9, 1], F32),), {"to": T.FLOAT16}, outputs=(T.FLOAT16,), label="overflow"),
    ]
    for kind in (np.uint8, np.uint16, np.uint32, np.uint64):
        a, b = np.array([200, 7, 3, 255], kind), np.array([100, 3, 7, 255], kind)
        code = CODE(np.dtype(kind))
        for operator in ("Add", "Sub", "Mul", "Div", "BitwiseXor", "Max"):
            found.append(u(operator, (a, b), outputs=(code,), label=np.dtype(kind).name))
        found.append(u("Less", (a, b), outputs=(T.BOOL,), label=np.dtype(kind).name))
        found.append(u("Gather", (a, ints(-1, 0)), outputs=(code,), label=np.dtype(kind).name))
        for direction in ("LEFT", "RIGHT"):
            found.append(
                u(
                    "BitShift",
                    (a, np.array([1, 2, 3, 70], kind)),
                    {"direction": direction},
                    (code,),
                    np.dtype(kind).name + direction,
                )
            )
    return found


def reductions() -> list[Use]:
    x, empty = normal(2, 3, 4), np.zeros((2, 0, 3), F32)
    found = []
    names = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
    for name in names:
        data = np.abs(x) if name == "LogSum" else x
        found += [
            Use(f"Reduce{name}", (data, ints(0, -1)), {"keepdims": 0}, label="negative axis"),
            Use(f"Reduce{name}", (data,), {"noop_with_empty_axes": 1}, label="no axes"),
            Use(f"Reduce{name}", (data,), {"keepdims": 0}, label="all axes"),
        ]
        if name != "Mean":
            found.append(Use(f"Reduce{name}", (empty, ints(1)), {"keepdims": 0}, label="empty"))
    whole = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "SumSquare"):
        found.append(Use(f"Reduce{name}", (whole, ints(1)), outputs=(T.INT32,), label="integers"))
    for name in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            found.append(
                Use(name, (TIES,), {"axis": 1, "select_last_index": last, "keepdims": 0}, (T.INT64,), f"ties {last}")
            )
    for exclusive in (0, 1):
        for reverse in (0, 1):
            settings = {"exclusive": exclusive, "reverse": reverse}
            found.append(Use("CumSum", (x, scalar(-1, np.int64)), settings, label=f"{exclusive}{reverse}"))
    for largest in (0, 1):
        found.append(Use("TopK", (TIES, ints(4)), {"largest": largest}, (T.FLOAT, T.INT64), f"ties {largest}"))
    return found


def windows() -> list[Use]:
    x, w, b = normal(2, 4, 9, 8), normal(6, 2, 3, 3), normal(6)
    line, volume = normal(2, 3, 11), normal(1, 2, 5, 6, 5)
    found = [
        Use("Conv", (x, w, b), {"group": 2, "pads": [1, 0, 2, 3], "strides": [2, 1]}, label="lopsided"),
        Use("Conv", (x, w, None), {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 3]}, label="same upper"),
        Use("Conv", (x, w), {"group": 2, "auto_pad": "SAME_LOWER", "dilations": [2, 1]}, label="same lower"),
        Use("Conv", (x, w, b), {"group": 2, "auto_pad": "VALID"}, label="valid"),
        Use("Conv", (line, normal(4, 3, 3)), {"pads": [2, 0]}, label="line"),
        Use("Conv", (volume, normal(3, 2, 2, 3, 2)), {"pads": [1, 0, 1, 0, 0, 1]}, label="volume"),
    ]
    t, v = normal(1, 4, 5, 6), normal(4, 3, 3, 2)
    found += [
        Use("ConvTranspose", (t, v, normal(3)), {"strides": [2, 3]}, label="plain"),
        Use("ConvTranspose", (t, v, normal(3)), {"strides": [2, 3], "pads": [1, 0, 0, 1]}, label="lopsided"),
        Use(
            "ConvTranspose",
            (t, v),
            {"strides": [2, 3], "output_padding": [1, 2], "pads": [1, 0, 1, 0]},
            label="output padding",
        ),
        Use(
            "ConvTranspose",
            (t, v, normal(3)),
            {"strides": [2, 3], "output_padding": [1, 2], "pads": [0, 1, 2, 0]},
            label="both",
        ),
        Use("ConvTranspose", (t, v), {"strides": [2, 3], "output_shape": [10, 17]}, label="output shape"),
        Use("ConvTranspose", (t, v), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, label="same upper"),
        Use("ConvTranspose", (t, v), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}, label="same lower"),
        Use("ConvTranspose", (t, v), {"dilations": [2, 2], "pads": [1, 1, 1, 1]}, label="dilated"),
        Use("ConvTranspose", (t, normal(4, 2, 3, 2)), {"group": 2}, label="groups"),
    ]
    for ceil in (0, 1):
        for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 2, 0], [2, 2, 2, 2]):
            settings = {"kernel_shape": [3, 4], "strides": [2, 3], "pads": pads, "ceil_mode": ceil}
            label = f"ceil {ceil} pads {pads}"
            for include in (0, 1):
                found.append(
                    Use("AveragePool", (x,), {**settings, "count_include_pad": include}, label=f"{label} {include}")
                )
            found.append(Use("MaxPool", (x,), settings, label=label))
            found.append(Use("MaxPool", (x,), settings, (T.FLOAT, T.INT64), f"{label} indices"))
            found.append(Use("LpPool", (x,), {**settings, "p": 3}, label=label))
    found += [
        Use("MaxPool", (x,), {"kernel_shape": [2, 2], "dilations": [2, 3]}, label="dilated"),
        Use("MaxPool", (x,), {"kernel_shape": [2, 2], "storage_order": 1}, (T.FLOAT, T.INT64), "by column"),
        Use("MaxPool", (line,), {"kernel_shape": [3], "pads": [1, 0]}, (T.FLOAT, T.INT64), "line"),
        Use("MaxPool", (volume,), {"kernel_shape": [2, 2, 2], "auto_pad": "SAME_LOWER"}, label="volume"),
        Use("MaxPool", ((x * 30).astype(np.int8),), {"kernel_shape": [2, 2], "pads": [0, 1, 1, 0]}, (T.INT8,), "bytes"),
        Use("AveragePool", (x,), {"kernel_shape": [2, 2], "dilations": [2, 3], "pads": [1, 0, 0, 1]}, label="dilated"),
        Use("AveragePool", (line,), {"kernel_shape": [3], "auto_pad": "SAME_UPPER", "strides": [2]}, label="line"),
        Use(
            "AveragePool",
            (volume,),
            {"kernel_shape": [2, 2, 2], "count_include_pad": 1, "pads": [1, 0, 1, 0, 1, 0]},
            label="volume",
        ),
        Use("GlobalLpPool", (x,), {"p": 3}),
        Use("GlobalMaxPool", (volume,)),
        Use("GlobalAveragePool", (line,)),
    ]
    return found


def normalizations() -> list[Use]:
    x, c = normal(3, 4, 5, 2), normal(4)
    var = np.abs(normal(4, seed=3)) + 0.1
    batch = (x, c, normal(4, seed=1), normal(4, seed=2), var)
    return [
        Use("BatchNormalization", batch, {"epsilon": 0.1}),
        Use("BatchNormalization", batch, {"training_mode": 1, "momentum": 0.7}, (T.FLOAT,) * 3, "trains"),
        Use("BatchNormalization", (normal(6, 4), *batch[1:]), label="flat"),
        Use("InstanceNormalization", (x, c, normal(4, seed=1)), {"epsilon": 0.01}),
        Use("LayerNormalization", (x, normal(5, 2), normal(5, 2, seed=1)), {"axis": 2}, (T.FLOAT,) * 3, "all outputs"),
        Use("LayerNormalization", (x, normal(5, 2)), {"axis": -2, "epsilon": 0.1}, label="no bias"),
        Use("LayerNormalization", (x, normal(2), normal(5, 1)), {"axis": 2}, label="broadcast"),
        Use("RMSNormalization", (x, normal(5, 2)), {"axis": 2, "epsilon": 0.1}),
        Use("GroupNormalization", (x, c, normal(4, seed=1)), {"num_groups": 2}),
        Use("LRN", (normal(2, 7, 3, 3),), {"size": 4, "alpha": 0.5, "bias": 2.0}, label="even"),
        Use("LRN", (normal(2, 7, 3),), {"size": 3, "alpha": 0.5}, label="odd"),
        Use(
            "LpNormalization",
            (np.vstack([normal(3, 4), np.zeros((1, 4), F32)]),),
            {"axis": 1, "p": 1},
            label="zero row",
        ),
        Use("MeanVarianceNormalization", (x,), {"axes": [0, 2]}),
    ]


def shapes() -> list[Use]:
    x = normal(2, 3, 4, 5)
    large = np.iinfo(np.int64)
    found = [
        Use("Reshape", (x, ints(0, -1, 5)), label="zero and minus one"),
        Use("Reshape", (np.zeros((0, 3), F32), ints(0, 3)), label="empty"),
        Use("Reshape", (np.zeros((0, 3), F32), ints(3, 0)), {"allowzero": 1}, label="literal zero"),
        Use("Flatten", (x,), {"axis": -1}),
        Use("Squeeze", (normal(1, 3, 1, 2),), label="all"),
        Use("Unsqueeze", (normal(3, 2), ints(-1, 0, 2))),
        Use("Slice", (x, ints(-1, -1), ints(large.min, 0), ints(1, 3), ints(-1, -2)), label="backwards"),
        Use("Slice", (x, ints(-100, 1), ints(100, large.max)), label="beyond"),
        Use("Slice", (x, ints(3), ints(1), ints(-1)), label="nothing"),
        Use("Slice", (x, ints(3), ints(-100), ints(2), ints(-2)), label="to the first"),
        Use("Split", (normal(7, 2), None), {"num_outputs": 3}, (T.FLOAT,) * 3, "uneven"),
        Use("Split", (normal(2, 7), ints(2, 0, 5)), {"axis": -1}, (T.FLOAT,) * 3, "sizes"),
        Use("Expand", (normal(3, 1), ints(2, 1, 4))),
        Use("Tile", (normal(2, 3), ints(2, 3))),
        Use("Concat", (normal(2, 3), normal(2, 1)), {"axis": -1}),
        Use("DepthToSpace", (normal(1, 8, 2, 3),), {"blocksize": 2, "mode": "DCR"}, label="DCR"),
        Use("DepthToSpace", (normal(1, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"}, label="CRD"),
        Use("SpaceToDepth", (normal(1, 2, 4, 6),), {"blocksize": 2}),
        Use("Pad", (x, ints(1, -1, 0, 2), scalar(7), ints(-1, 1)), label="crop and axes"),
        Use("Pad", (x, ints(0, 0, 0, 0, 0, 1, 0, 0)), label="constant"),
        Use("CenterCropPad", (normal(5, 3), ints(2, 6))),
    ]
    for mode in ("reflect", "edge", "wrap"):
        found.append(Use("Pad", (x, ints(0, 0, 1, 2, 0, 0, 3, 1)), {"mode": mode}, label=mode))
        found.append(Use("Pad", (x, ints(1, 2, 0, 0, 0, 1, 0, 0)), {"mode": mode}, label=f"{mode} leading axes"))
        found.append(
            Use(
                "Pad",
                (np.arange(6).reshape(1, 2, 3), ints(0, 0, 2, 0, 1, 1)),
                {"mode": mode},
                (T.INT64,),
                f"{mode} integers",
            )
        )
    return found


def indexing() -> list[Use]:
    x = normal(3, 4, 5)
    found = [
        Use("Gather", (x, np.array([[0, -1], [2, -3]])), {"axis": -2}, label="negative"),
        Use("Gather", (x, scalar(-1, np.int64)), {"axis": 1}, label="scalar"),
        Use("Gather", (x, np.array([1, 0], np.int32)), {"axis": 2}, label="int32"),
        Use("GatherElements", (x, np.array([[[0, -1, 1, -2, 3]]])), {"axis": 1}, label="negative"),
        Use("GatherND", (x, np.array([[0, -1], [2, 3]])), label="negative"),
        Use("GatherND", (x, np.array([[-1], [0], [2]])), {"batch_dims": 1}, label="batch"),
        Use(
            "OneHot",
            (np.array([0, -1, 7, -9]), scalar(4, np.int64), np.array([2, 5], F32)),
            {"axis": 0},
            label="out of range",
        ),
        Use("OneHot", (np.array([0.0, 1.0], F32), scalar(3, F32), np.array([0, 1], F32)), label="float"),
        Use("NonZero", (np.array([[0, 1], [2, 0]], F32),), outputs=(T.INT64,)),
        Use("Compress", (x, np.array([True, False, True])), {"axis": 1}, label="axis"),
        Use("Compress", (x, np.array([False, True, True])), label="flat"),
        Use("ReverseSequence", (x, ints(1, 4, 2)), {"batch_axis": 0, "time_axis": 1}),
        Use("Trilu", (normal(2, 3, 4), scalar(-1, np.int64)), {"upper": 0}),
        Use("Trilu", (normal(2, 3, 4),), label="default"),
        Use(
            "Unique",
            (np.array([3, 1, 3, 2, 1], F32),),
            {"sorted": 0},
            (T.FLOAT, T.INT64, T.INT64, T.INT64),
            "first seen",
        ),
        Use("Unique", (TIES.astype(np.int64),), {"axis": 1}, (T.INT64,) * 4, "columns"),
    ]
    where, updates = np.array([[0, -1, 1], [1, 0, -1]]), normal(2, 3)
    nd = np.array([[0, -1], [2, 3], [0, 3]])
    for reduction in ("none", "add", "mul", "max", "min"):
        found.append(Use("ScatterElements", (normal(4, 3), where, updates), {"reduction": reduction}, label=reduction))
        unique = nd[:2] if reduction == "none" else nd
        found.append(Use("ScatterND", (x, unique, normal(len(unique), 5)), {"reduction": reduction}, label=reduction))
    return found


def recurrent() -> list[Use]:
    time, batch, size, hidden = 5, 3, 4, 2
    x, lengths = normal(time, batch, size), np.array([5, 2, 3], np.int32)
    found = []
    for name, gates, states in (("LSTM", 4, 2), ("GRU", 3, 1), ("RNN", 1, 1)):
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            w, r = normal(count, gates * hidden, size), normal(count, gates * hidden, hidden, seed=1)
            b = normal(count, 2 * gates * hidden, seed=2)
            initial = [normal(count, batch, hidden, seed=3 + i) for i in range(states)]
            common = {"hidden_size": hidden, "direction": direction}
            outs = (T.FLOAT,) * (1 + states)
            variants: list[tuple[str, list[Any], dict[str, Any]]] = [
                ("plain", [x, w, r], {}),
                ("whole", [x, w, r, b, None, *initial], {}),
                ("lengths", [x, w, r, b, lengths, *initial], {}),
                ("clipped", [x, w, r, b, None, *initial], {"clip": 0.3}),
            ]
            if name == "GRU":
                variants.append(("linear", [x, w, r, b, None, *initial], {"linear_before_reset": 1}))
            if name == "LSTM":
                variants.append(("peepholes", [x, w, r, b, None, *initial, normal(count, 3 * hidden)], {}))
                variants.append(("coupled", [x, w, r, b], {"input_forget": 1}))
            if name == "RNN":
                variants.append(("relu", [x, w, r, b], {"activations": ["Relu"] * count}))
                slopes = {"activations": ["LeakyRelu"] * count, "activation_alpha": [0.1, 0.3][:count]}
                variants.append(("leaky", [x, w, r, b], slopes))
            turned = [None if a is None else a.swapaxes(0, 1).copy() for a in initial]
            variants.append(("batch first", [x.swapaxes(0, 1).copy(), w, r, b, None, *turned], {"layout": 1}))
            for label, inputs, extra in variants:
                found.append(Use(name, inputs, {**common, **extra}, outs, f"{direction} {label}"))
    return found


def images() -> list[Use]:
    x = normal(1, 2, 5, 6)
    found = []
    coordinates = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
    for mode in ("nearest", "linear", "cubic"):
        for how in coordinates:
            for scale in ((1, 1, 2, 3), (1, 1, 0.6, 1.7), (1, 1, 0.5, 0.5)):
                settings = {"mode": mode, "coordinate_transformation_mode": how}
                inputs = (x, None, np.array(scale, F32))
                found.append(Use("Resize", inputs, settings, label=f"{mode} {how} {scale}", rtol=1e-4))
    for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        for how in ("half_pixel", "asymmetric"):
            settings = {"nearest_mode": nearest, "coordinate_transformation_mode": how}
            found.append(Use("Resize", (x, None, np.array([1, 1, 2, 0.7], F32)), settings, label=f"{nearest} {how}"))
    found += [
        Use("Resize", (x, None, None, ints(1, 2, 3, 9)), {"mode": "linear"}, label="sizes", rtol=1e-4),
        Use("Resize", (x, None, None, ints(3, 9)), {"mode": "linear", "axes": [2, 3]}, label="axes", rtol=1e-4),
        Use(
            "Resize",
            (x, None, None, ints(9, 9)),
            {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"},
            label="not larger",
        ),
        Use(
            "Resize",
            (x, None, np.array([1, 1, 0.6, 0.4], F32)),
            {"mode": "linear", "antialias": 1},
            label="antialias",
            rtol=1e-4,
        ),
        Use(
            "Resize",
            (x, None, np.array([1, 1, 0.6, 2], F32)),
            {"mode": "cubic", "exclude_outside": 1},
            label="exclude",
            rtol=1e-4,
        ),
        Use("Resize", (x, None, np.array([1, 2, 1, 1], F32)), {"mode": "linear"}, label="channels", rtol=1e-4),
    ]
    grid = np.random.default_rng(0).uniform(-1.3, 1.3, (1, 3, 4, 2)).astype(F32)
    for mode in ("linear", "nearest", "cubic"):
        for border in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                settings = {"mode": mode, "padding_mode": border, "align_corners": corners}
                found.append(Use("GridSample", (x, grid), settings, label=f"{mode} {border} {corners}", rtol=1e-4))
    return found


def detection() -> list[Use]:
    rng = np.random.default_rng(0)
    boxes, scores = rng.uniform(0, 4, (2, 12, 4)).astype(F32), rng.uniform(0, 1, (2, 3, 12)).astype(F32)
    scores[0, 0, 3:6] = 0.5
    limits = (scalar(5, np.int64), scalar(0.3), scalar(0.2))
    image, where = normal(2, 3, 9, 8), np.array([1, 0, 1])
    regions = np.array([[0, 0, 7, 8], [2.5, 1.2, 4.1, 6.3], [-3, -2, 12, 3]], F32)
    found = [
        Use("NonMaxSuppression", (boxes, scores, *limits), outputs=(T.INT64,), label="all"),
        Use("NonMaxSuppression", (boxes, scores, limits[0]), {"center_point_box": 1}, (T.INT64,), "centred"),
        Use("NonMaxSuppression", (boxes, scores), outputs=(T.INT64,), label="no limit given"),
    ]
    for how in ("half_pixel", "output_half_pixel"):
        for ratio in (0, 2):
            settings = {"output_height": 3, "output_width": 2, "sampling_ratio": ratio, "spatial_scale": 0.5}
            settings["coordinate_transformation_mode"] = how
            found.append(Use("RoiAlign", (image, regions, where), settings, label=f"{how} {ratio}"))
    return found


def products() -> list[Use]:
    found = []
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        left, right = normal(*((4, 3) if a else (3, 4))), normal(*((5, 4) if b else (4, 5)))
        settings = {"transA": a, "transB": b}
        found.append(Use("Gemm", (left, right, normal(5)), settings, label=f"{a}{b}"))
        found.append(
            Use("Gemm", (left, right, normal(3, 1)), {**settings, "alpha": 0.5, "beta": 2.0}, label=f"{a}{b} scaled")
        )
        found.append(Use("Gemm", (left, right), {**settings, "alpha": 0.5}, label=f"{a}{b} no addend"))
        found.append(Use("Gemm", (left, right, scalar(2)), settings, label=f"{a}{b} scalar"))
    a8, b8 = np.arange(12, dtype=np.uint8).reshape(3, 4), np.arange(-10, 10, dtype=np.int8).reshape(4, 5)
    found += [
        Use("MatMul", (normal(2, 1, 3, 4), normal(5, 4, 2)), label="broadcast"),
        Use("MatMul", (normal(4), normal(2, 4, 3)), label="vector"),
        Use("MatMul", (np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2)), outputs=(T.INT64,), label="integers"),
        Use("MatMulInteger", (a8, b8, scalar(3, np.uint8), scalar(-2, np.int8)), outputs=(T.INT32,)),
        Use(
            "MatMulInteger",
            (a8, b8, np.array([1, 2, 3], np.uint8), np.arange(5, dtype=np.int8)),
            outputs=(T.INT32,),
            label="rows",
        ),
        Use("Einsum", (normal(2, 3, 4), normal(2, 4)), {"equation": "b i j, b j -> b i"}),
        Use("Det", (normal(2, 3, 3),)),
    ]
    q, k, v = normal(2, 4, 3, 8), normal(2, 4, 5, 8, seed=1), normal(2, 4, 5, 6, seed=2)
    found += [
        Use("Attention", (q, k, v), label="plain"),
        Use("Attention", (q, k, v), {"scale": 0.2}, label="scale"),
        Use("Attention", (q, k[:, :2], v[:, :2]), label="shared heads"),
        Use("Attention", (q, k, v), {"is_causal": 1}, label="causal"),
    ]
    return found


USES = [
    *elementwise(), *reductions(), *windows(), *normalizations(), *shapes(), *indexing(), *recurrent(), *images(),
    *detection(), *products(),
]  # fmt: skip


@pytest.fixture(scope="module")
def adapters() -> tuple[TorchAdapter, ReferenceAdapter]:
    return TorchAdapter(), ReferenceAdapter()


@pytest.mark.parametrize("form", ["fed", "fixed", "open"])
@pytest.mark.parametrize("use", USES, ids=str)
def test_as_the_reference(use: Use, form: str, adapters, one_node) -> None:
    given = [i for i, a in enumerate(use.inputs) if a is not None]
    network, fed = one_node(
        use.operator,
        use.inputs,
        use.attributes,
        outputs=use.outputs,
        fixed=given[1:] if form == "fixed" else (),
        open_shapes=form == "open",
    )
    ours, reference = (adapter.prepare(network)(fed) for adapter in adapters)
    assert list(ours) == list(reference)
    for name, wanted in reference.items():
        assert ours[name].dtype == wanted.dtype
        assert ours[name].shape == wanted.shape
        exact = wanted.dtype.kind in "iub" or wanted.dtype == ml_dtypes.bfloat16
        rtol, atol = (0, 0) if exact else (1e-3, 1e-3) if wanted.dtype == F16 else (use.rtol, use.rtol * 0.1)
        np.testing.assert_allclose(ours[name], wanted, rtol=rtol, atol=atol)
