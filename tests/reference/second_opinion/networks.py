"""One-node networks beyond the standard's own cases: older forms, and corners that those cases leave out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

FLOAT, DOUBLE, INT32, INT64 = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.INT32,
    onnx.TensorProto.INT64,
)


@dataclass(frozen=True)
class OneNode:
    """A network of one node, all of whose inputs are fed.

    Args:
        name: What it shows; unique.
        operator: The operator.
        opset: The version of the default domain.
        inputs: Its inputs; ``None`` for an omitted one.
        attributes: Its attributes.
        outputs: The number of its outputs.
    """

    name: str
    operator: str
    opset: int
    inputs: tuple[np.ndarray | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1

    @property
    def proto(self) -> onnx.ModelProto:
        """The network; its outputs are declared with the types that the standard infers, or with the first input's."""
        names = ["" if array is None else f"x{i}" for i, array in enumerate(self.inputs)]
        results = [f"y{i}" for i in range(self.outputs)]
        node = onnx.helper.make_node(self.operator, names, results, name="node", **self.attributes)
        given = [
            onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names, self.inputs, strict=True)
            if a is not None
        ]
        declared = [onnx.ValueInfoProto(name=n) for n in results]
        graph = onnx.helper.make_graph([node], self.name, given, declared)
        opset = onnx.helper.make_opsetid("", self.opset)
        model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)
        inferred = onnx.shape_inference.infer_shapes(model)
        for value in inferred.graph.output:  # operators that are functions leave it open
            if not value.type.tensor_type.elem_type:
                value.type.CopyFrom(given[0].type)
        return inferred

    @property
    def feeds(self) -> list[np.ndarray]:
        """What is fed, in order."""
        return [a for a in self.inputs if a is not None]


def normal(*shape: int) -> np.ndarray:
    """The same numbers for the same shape."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    """A vector of int64."""
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    """A vector of float32."""
    return np.array(values, np.float32)


def networks() -> Iterator[OneNode]:
    """All of them."""
    for family in (_older, _windows, _elementwise, _indexing, _shapes, _reductions, _normalizations, _recurrent, _images):
        yield from family()


def _older() -> Iterator[OneNode]:
    image, moments = normal(2, 3, 4), (normal(3), normal(3), normal(3), np.abs(normal(3)) + 1)
    for opset in (9, 13, 14):
        yield OneNode(f"BatchNormalization-{opset}", "BatchNormalization", opset, (image, *moments))
    for operator in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset in (11, 13):
            yield OneNode(f"{operator}-{opset}, axis 1 of 3", operator, opset, (image,), {"axis": 1})
        yield OneNode(f"{operator}-11, no axis", operator, 11, (image,))
    yield OneNode("Clip-6", "Clip", 6, (image,), {"min": -0.5, "max": 0.5})
    yield OneNode("Dropout-10", "Dropout", 10, (image,), {"ratio": 0.3})
    yield OneNode("Pad-2", "Pad", 2, (image,), {"pads": [0, 1, 1, 0, 0, 2], "value": 1.5})
    yield OneNode("Slice-1", "Slice", 9, (image,), {"starts": [0, -2], "ends": [1, 100], "axes": [0, 2]})
    yield OneNode("Split-2", "Split", 11, (image,), {"axis": 1, "split": [1, 2]}, 2)
    yield OneNode("Squeeze-11", "Squeeze", 11, (image[:1],), {"axes": [0]})
    yield OneNode("Unsqueeze-11", "Unsqueeze", 11, (image,), {"axes": [0, 4]})
    yield OneNode("ReduceSum-11", "ReduceSum", 11, (image,), {"axes": [-1], "keepdims": 0})
    yield OneNode("ReduceMax-12", "ReduceMax", 12, (image,), {"axes": [1]})
    yield OneNode("TopK-1", "TopK", 9, (image,), {"axis": 1, "k": 2}, 2)
    yield OneNode("Upsample-9", "Upsample", 9, (normal(1, 1, 2, 3), floats(1, 1, 2, 2)), {"mode": "nearest"})
    yield OneNode("Upsample-9, linear", "Upsample", 9, (normal(1, 1, 2, 3), floats(1, 1, 2, 2)), {"mode": "linear"})
    yield OneNode("Resize-10", "Resize", 10, (normal(1, 1, 4, 4), floats(1, 1, 2, 2)), {"mode": "linear"})
    yield OneNode("Gemm-9", "Gemm", 9, (normal(3, 4), normal(4, 2), normal(2)), {"alpha": 0.5, "beta": 2.0})
    yield OneNode("Cast-9", "Cast", 9, (floats(1.9, -1.9),), {"to": INT32})
    yield OneNode("Gather-1, negative", "Gather", 11, (image, ints(-1, 0)), {"axis": 2})
    yield OneNode("Flatten-9", "Flatten", 9, (normal(2, 3, 4),), {"axis": 0})
    yield OneNode("Scatter-9", "Scatter", 9, (normal(3, 3), np.array([[0, 2]]), normal(1, 2)), {"axis": 1})


def _windows() -> Iterator[OneNode]:
    image, line = normal(1, 2, 7, 6), normal(1, 2, 9)
    kernel, narrow = normal(4, 2, 3, 3), normal(4, 1, 3, 3)
    yield OneNode("Conv, SAME_LOWER", "Conv", 22, (image, kernel), {"auto_pad": "SAME_LOWER", "strides": [2, 2]})
    yield OneNode("Conv, SAME_UPPER", "Conv", 22, (image, kernel), {"auto_pad": "SAME_UPPER", "strides": [3, 2]})
    yield OneNode("Conv, SAME_UPPER, dilated", "Conv", 22, (image, kernel), {"auto_pad": "SAME_UPPER", "dilations": [2, 2]})
    yield OneNode("Conv, grouped, dilated", "Conv", 22, (image, narrow), {"group": 2, "dilations": [2, 1]})
    yield OneNode("Conv, uneven pads", "Conv", 22, (image, kernel, normal(4)), {"pads": [1, 0, 2, 3], "strides": [2, 1]})
    yield OneNode("Conv, one axis", "Conv", 22, (line, normal(3, 2, 4)), {"strides": [2], "pads": [1, 2]})
    yield OneNode("Conv, three axes", "Conv", 22, (normal(1, 1, 4, 4, 4), normal(2, 1, 2, 2, 2)))
    transposed = (normal(1, 4, 5, 4), narrow)
    yield OneNode("ConvTranspose, plain", "ConvTranspose", 22, transposed, {"strides": [2, 2]})
    for pad in ("SAME_UPPER", "SAME_LOWER"):
        yield OneNode(f"ConvTranspose, {pad}", "ConvTranspose", 22, transposed, {"strides": [2, 2], "auto_pad": pad})
    yield OneNode("ConvTranspose, dilated", "ConvTranspose", 22, transposed, {"dilations": [2, 2], "pads": [1, 1, 0, 2]})
    yield OneNode(
        "ConvTranspose, grouped", "ConvTranspose", 22, transposed, {"group": 2, "strides": [2, 1], "output_padding": [1, 0]}
    )
    yield OneNode(
        "ConvTranspose, output_shape", "ConvTranspose", 22, transposed, {"strides": [2, 2], "output_shape": [10, 8]}
    )
    plain = {"kernel_shape": [3, 2]}
    yield OneNode("MaxPool, Indices, no strides", "MaxPool", 22, (image,), plain, 2)
    yield OneNode("MaxPool, Indices", "MaxPool", 22, (image,), {**plain, "strides": [1, 1]}, 2)
    yield OneNode(
        "MaxPool, Indices, column order", "MaxPool", 22, (image,), {**plain, "storage_order": 1, "strides": [1, 1]}, 2
    )
    yield OneNode("MaxPool, Indices, padded", "MaxPool", 22, (image,), {**plain, "pads": [1, 1, 1, 0], "strides": [2, 2]}, 2)
    for operator in ("MaxPool", "AveragePool", "LpPool"):
        for name, more in {
            "ceil_mode": {"ceil_mode": 1, "strides": [2, 2], "pads": [1, 0, 1, 1]},
            "dilated": {"dilations": [2, 2]},
            "SAME_LOWER": {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
            "uneven pads": {"pads": [0, 1, 2, 0]},
        }.items():
            yield OneNode(f"{operator}, {name}", operator, 22, (image,), {**plain, **more})
        yield OneNode(f"{operator}, one axis", operator, 22, (line,), {"kernel_shape": [4], "strides": [3], "pads": [2, 1]})
    counted = {**plain, "count_include_pad": 1, "pads": [1, 1, 1, 1], "strides": [2, 2]}
    yield OneNode("AveragePool, padding counts", "AveragePool", 22, (image,), counted)
    yield OneNode("AveragePool, padding counts, ceil_mode", "AveragePool", 22, (image,), {**counted, "ceil_mode": 1})
    yield OneNode("LpPool, p 3", "LpPool", 22, (image,), {**plain, "p": 3})
    for operator in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"):
        yield OneNode(f"{operator}, one axis", operator, 22, (line,))
        yield OneNode(f"{operator}, two axes", operator, 22, (image,))


def _elementwise() -> Iterator[OneNode]:
    odd = np.array([-7, 7, -7, 7, 0], np.int32), np.array([2, -2, -2, 2, 3], np.int32)
    yield OneNode("Div of int32", "Div", 14, odd)
    yield OneNode("Mod of int32", "Mod", 13, odd)
    yield OneNode("Mod of int32, fmod", "Mod", 13, odd, {"fmod": 1})
    yield OneNode("Mod of float32, fmod", "Mod", 13, (floats(-4.3, 7.2), floats(2.1, -3.4)), {"fmod": 1})
    yield OneNode("Pow of int32 and float32", "Pow", 15, (np.array([2, 3], np.int32), floats(0.5, 2)))
    yield OneNode(
        "Clip, min above max", "Clip", 13, (floats(-1, 0, 3), np.float32(2)[()].reshape(()), np.float32(1).reshape(()))
    )
    yield OneNode("Round, halves", "Round", 22, (floats(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5),))
    yield OneNode("Sign of NaN", "Sign", 13, (floats(np.nan, -0.0, 2),))
    yield OneNode("Cast of 300 to uint8", "Cast", 24, (np.array([300, -1], np.int32),), {"to": onnx.TensorProto.UINT8})
    yield OneNode("Cast of float32 to bool", "Cast", 24, (floats(0.0, 0.3, -2, np.nan),), {"to": onnx.TensorProto.BOOL})
    yield OneNode("Sigmoid, far out", "Sigmoid", 13, (floats(-200, -90, 90, 200),))
    yield OneNode("Softplus, far out", "Softplus", 22, (floats(-200, -90, 90, 200),))
    yield OneNode("Elu, alpha 2", "Elu", 22, (floats(-1, 0, 1),), {"alpha": 2.0})
    yield OneNode("Celu, alpha 2", "Celu", 12, (floats(-1, 0, 1),), {"alpha": 2.0})
    yield OneNode("Selu", "Selu", 22, (floats(-1, 0, 1),))
    yield OneNode("Shrink", "Shrink", 9, (floats(-2, -0.1, 0.1, 2),), {"lambd": 0.5, "bias": 0.25})
    yield OneNode("PRelu, slope of a channel", "PRelu", 16, (normal(2, 3, 4), normal(3, 1)))
    yield OneNode("HardSigmoid", "HardSigmoid", 22, (normal(8),), {"alpha": 0.3, "beta": 0.4})
    yield OneNode("Gelu, tanh", "Gelu", 20, (normal(8),), {"approximate": "tanh"})
    yield OneNode(
        "BitShift left of uint8",
        "BitShift",
        11,
        (np.array([255, 3], np.uint8), np.array([1, 7], np.uint8)),
        {"direction": "LEFT"},
    )
    yield OneNode("Max of int8", "Max", 13, (np.array([-3, 4], np.int8), np.array([2, -5], np.int8)))
    yield OneNode("Mean of three, broadcast", "Mean", 13, (normal(2, 3), normal(3), normal(1)))
    yield OneNode("Softmax, axis 0", "Softmax", 13, (normal(3, 4),), {"axis": 0})
    yield OneNode("Hardmax, ties", "Hardmax", 13, (floats(1, 3, 3, 0),), {"axis": 0})
    yield OneNode("IsInf, negative only", "IsInf", 20, (floats(-np.inf, np.inf, 1),), {"detect_positive": 0})
    yield OneNode("Swish", "Swish", 24, (normal(8),), {"alpha": 0.5})


def _indexing() -> Iterator[OneNode]:
    table = normal(3, 4, 2)
    yield OneNode("GatherElements, fewer indices", "GatherElements", 13, (normal(3, 4), np.array([[0, 1]])), {"axis": 0})
    yield OneNode("GatherElements, negative", "GatherElements", 13, (normal(3, 4), np.array([[-1], [0], [2]])), {"axis": 1})
    yield OneNode("GatherND, batch_dims 1", "GatherND", 13, (table, np.array([[1], [0], [3]])), {"batch_dims": 1})
    yield OneNode("Gather, scalar index", "Gather", 13, (table, np.array(-2)), {"axis": 1})
    data, index, update = normal(3, 3), np.array([[1, 1, 2], [0, -1, 0]]), normal(2, 3)
    for reduction in ("none", "add", "mul", "max", "min"):
        yield OneNode(
            f"ScatterElements, {reduction}",
            "ScatterElements",
            18,
            (data, np.array([[1, 0, 2], [0, -1, 0]]), update),
            {"reduction": reduction},
        )
    yield OneNode(
        "ScatterElements, add, repeated", "ScatterElements", 18, (data, index, update), {"axis": 0, "reduction": "add"}
    )
    yield OneNode(
        "ScatterElements, fewer indices", "ScatterElements", 18, (data, np.array([[2]]), normal(1, 1)), {"axis": 1}
    )
    for reduction in ("none", "add", "max"):
        yield OneNode(
            f"ScatterND, {reduction}",
            "ScatterND",
            18,
            (normal(4, 2), np.array([[1], [3], [-3]])[:2], normal(2, 2)),
            {"reduction": reduction},
        )
    yield OneNode(
        "ScatterND, add, repeated", "ScatterND", 18, (normal(4, 2), np.array([[1], [1]]), normal(2, 2)), {"reduction": "add"}
    )
    yield OneNode("OneHot, negative indices", "OneHot", 11, (ints(-1, 0, 2, 5, -9), ints(3), floats(0.5, 2)), {"axis": 0})
    yield OneNode("Compress, negative axis", "Compress", 11, (table, np.array([True, False, True])), {"axis": -2})
    yield OneNode("Trilu, far diagonal", "Trilu", 14, (normal(2, 3, 4), np.array(-5)), {"upper": 1})
    yield OneNode("Unique, axis", "Unique", 11, (np.array([[2, 1], [1, 1], [2, 1]]),), {"axis": 0, "sorted": 0}, 4)
    yield OneNode("Unique, NaN", "Unique", 11, (floats(np.nan, 1, np.nan),), {}, 4)
    yield OneNode("NonZero of a scalar", "NonZero", 13, (np.array(3.0, np.float32),))
    yield OneNode(
        "ReverseSequence, batch last",
        "ReverseSequence",
        10,
        (normal(4, 3), ints(1, 3, 4)),
        {"time_axis": 0, "batch_axis": 1},
    )
    yield OneNode("ArgMax, last of ties", "ArgMax", 13, (floats(1, 3, 3, 0),), {"axis": 0, "select_last_index": 1})
    yield OneNode("ArgMin of NaN", "ArgMin", 13, (floats(1, np.nan, 0),), {"axis": 0})
    yield OneNode("TopK, ties", "TopK", 11, (floats(1, 3, 3, 0, 3), ints(2)), {}, 2)
    yield OneNode("TopK, ties, smallest", "TopK", 11, (floats(3, 0, 3, 0, 0), ints(2)), {"largest": 0}, 2)


def _shapes() -> Iterator[OneNode]:
    x = normal(2, 3, 4)
    yield OneNode("Reshape, zero and rest", "Reshape", 21, (x, ints(0, -1)))
    yield OneNode("Reshape, allowzero", "Reshape", 21, (normal(0, 3), ints(3, 0)), {"allowzero": 1})
    yield OneNode("Slice, backwards", "Slice", 13, (x, ints(-1, 10), ints(-100, 0), ints(1, 2), ints(-1, -2)))
    yield OneNode("Slice, empty", "Slice", 13, (x, ints(2), ints(1), ints(1)))
    yield OneNode("Split, uneven", "Split", 18, (normal(7),), {"num_outputs": 3}, 3)
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield OneNode(f"Pad, {mode}", "Pad", 24, (x, ints(1, 2, 0, 2), None, ints(1, 2)), {"mode": mode})
    yield OneNode("Pad, negative", "Pad", 24, (x, ints(0, -1, 1, 0, 0, -2)))
    yield OneNode("Expand, both ways", "Expand", 13, (normal(3, 1), ints(2, 1, 4)))
    yield OneNode("Tile", "Tile", 13, (normal(2, 3), ints(2, 1)))
    yield OneNode("Shape, part", "Shape", 21, (x,), {"start": -2, "end": 10})
    yield OneNode("Flatten, negative axis", "Flatten", 21, (x,), {"axis": -1})
    yield OneNode("Squeeze, no axes", "Squeeze", 21, (normal(1, 3, 1),))
    yield OneNode("DepthToSpace, CRD", "DepthToSpace", 13, (normal(1, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"})
    yield OneNode("SpaceToDepth", "SpaceToDepth", 13, (normal(1, 2, 4, 6),), {"blocksize": 2})
    yield OneNode("EyeLike, lower", "EyeLike", 22, (normal(3, 4),), {"k": -1, "dtype": DOUBLE})
    yield OneNode(
        "Range, downwards", "Range", 11, (np.float32(5).reshape(()), np.float32(1).reshape(()), np.float32(-1.5).reshape(()))
    )
    yield OneNode("ConstantOfShape, scalar", "ConstantOfShape", 21, (np.zeros(0, np.int64),))
    yield OneNode("CenterCropPad", "CenterCropPad", 18, (normal(5, 3), ints(3, 6)))
    yield OneNode("Concat, negative axis", "Concat", 13, (normal(2, 3), normal(2, 1)), {"axis": -1})
    yield OneNode("Col2Im", "Col2Im", 18, (normal(1, 5, 5), ints(5, 5), ints(1, 5)))


def _reductions() -> Iterator[OneNode]:
    x = normal(2, 3, 4)
    for operator in ("ReduceSum", "ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceProd", "ReduceMax"):
        opset = 13 if operator == "ReduceSum" else 18
        yield OneNode(f"{operator}, no axes", operator, opset, (x,))
        yield OneNode(f"{operator}, no axes, noop", operator, opset, (x, np.zeros(0, np.int64)), {"noop_with_empty_axes": 1})
        yield OneNode(f"{operator}, two axes", operator, opset, (x, ints(0, -1)), {"keepdims": 0})
    yield OneNode("ReduceMax of an empty axis", "ReduceMax", 20, (normal(2, 0), ints(1)))
    yield OneNode("ReduceMean of int32", "ReduceMean", 18, (np.array([[-3, 0], [1, 1]], np.int32), ints(1)))
    yield OneNode("ReduceLogSumExp, large", "ReduceLogSumExp", 18, (floats(1000, 1001), ints(0)))
    yield OneNode("ReduceSumSquare, noop", "ReduceSumSquare", 18, (x,), {"noop_with_empty_axes": 1})
    for exclusive in (0, 1):
        yield OneNode(
            f"CumSum, reverse, exclusive {exclusive}",
            "CumSum",
            14,
            (x, np.array(-1)),
            {"reverse": 1, "exclusive": exclusive},
        )
    yield OneNode("Einsum, diagonal", "Einsum", 12, (normal(3, 3),), {"equation": "ii->i"})
    yield OneNode("Einsum, ellipsis", "Einsum", 12, (normal(2, 3, 4), normal(2, 4, 5)), {"equation": "...ij,...jk->...ik"})
    yield OneNode("Det of a batch", "Det", 22, (normal(2, 3, 3),))
    yield OneNode("Gemm, transposed", "Gemm", 13, (normal(4, 3), normal(2, 4), normal(3, 1)), {"transA": 1, "transB": 1})
    yield OneNode("MatMul, vector", "MatMul", 13, (normal(3), normal(2, 3, 4)))


def _normalizations() -> Iterator[OneNode]:
    x, scale, bias = normal(2, 4, 3), normal(4), normal(4) + 1
    yield OneNode("InstanceNormalization, one axis", "InstanceNormalization", 22, (x, scale, bias))
    yield OneNode("GroupNormalization", "GroupNormalization", 21, (x, scale, bias), {"num_groups": 2})
    yield OneNode("LayerNormalization, axis 1", "LayerNormalization", 17, (x, normal(4, 3)), {"axis": 1}, 3)
    yield OneNode("RMSNormalization, axis 1", "RMSNormalization", 23, (x, normal(4, 3)), {"axis": 1})
    for p in (1, 2):
        yield OneNode(
            f"LpNormalization, p {p}, zeros", "LpNormalization", 22, (np.array([[0, 0], [3, -4]], np.float32),), {"p": p}
        )
    yield OneNode("LRN, fewer images than channels", "LRN", 13, (normal(1, 5, 2, 2),), {"size": 4, "alpha": 0.1})
    yield OneNode("MeanVarianceNormalization, axes", "MeanVarianceNormalization", 13, (normal(2, 3, 4, 4),), {"axes": [1]})
    moments = (scale, bias, normal(4), np.abs(normal(4)) + 1)
    yield OneNode(
        "BatchNormalization, training", "BatchNormalization", 15, (x, *moments), {"training_mode": 1, "momentum": 0.7}, 3
    )
    yield OneNode("BatchNormalization, epsilon", "BatchNormalization", 15, (x, *moments), {"epsilon": 0.1})


def _recurrent() -> Iterator[OneNode]:
    for operator, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            weights = (normal(count, 3 * gates, 2) / 2, normal(count, 3 * gates, 3) / 2, normal(count, 6 * gates) / 2)
            inputs = (normal(4, 2, 2), *weights)
            yield OneNode(f"{operator}, {direction}", operator, 22, inputs, {"hidden_size": 3, "direction": direction}, 2)
            lengths = np.array([2, 4], np.int32)
            yield OneNode(
                f"{operator}, {direction}, lengths",
                operator,
                22,
                (*inputs, lengths),
                {"hidden_size": 3, "direction": direction},
                2,
            )
        yield OneNode(
            f"{operator}, clip",
            operator,
            22,
            (normal(4, 2, 2), *(3 * w for w in weights)),
            {"hidden_size": 3, "clip": 0.2, "direction": "bidirectional"},
            2,
        )
        initial = (normal(4, 2, 2), *weights, None, normal(2, 2, 3))
        yield OneNode(
            f"{operator}, initial state", operator, 22, initial, {"hidden_size": 3, "direction": "bidirectional"}, 2
        )
    gru = (normal(4, 2, 2), normal(1, 9, 2), normal(1, 9, 3), normal(1, 18))
    yield OneNode("GRU, linear_before_reset", "GRU", 22, gru, {"hidden_size": 3, "linear_before_reset": 1}, 2)
    lstm = (normal(4, 2, 2), normal(1, 12, 2), normal(1, 12, 3), normal(1, 24))
    yield OneNode("LSTM, peepholes", "LSTM", 22, (*lstm, None, None, None, normal(1, 9)), {"hidden_size": 3}, 3)
    yield OneNode("LSTM, coupled gates", "LSTM", 22, lstm, {"hidden_size": 3, "input_forget": 1}, 3)
    yield OneNode("LSTM, batch first", "LSTM", 22, lstm, {"hidden_size": 3, "layout": 1}, 3)
    yield OneNode(
        "LSTM, other activations",
        "LSTM",
        22,
        lstm,
        {"hidden_size": 3, "activations": ["HardSigmoid", "Softsign", "Tanh"]},
        3,
    )


def _images() -> Iterator[OneNode]:
    x = normal(1, 1, 4, 5)
    for mode in ("nearest", "linear", "cubic"):
        for transformation in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"):
            for number, scale in enumerate((2.0, 0.6)):
                yield OneNode(
                    f"Resize, {mode}, {transformation}, {'up' if number == 0 else 'down'}",
                    "Resize",
                    19,
                    (x, None, floats(1, 1, scale, scale)),
                    {"mode": mode, "coordinate_transformation_mode": transformation},
                )
    yield OneNode("Resize, antialias", "Resize", 19, (x, None, floats(1, 1, 0.5, 0.5)), {"mode": "linear", "antialias": 1})
    yield OneNode(
        "Resize, exclude_outside", "Resize", 19, (x, None, floats(1, 1, 1.5, 1.5)), {"mode": "cubic", "exclude_outside": 1}
    )
    for mode in ("nearest", "linear", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                grid = normal(1, 3, 3, 2)
                yield OneNode(
                    f"GridSample, {mode}, {padding}, align_corners {corners}",
                    "GridSample",
                    20,
                    (x, grid),
                    {"mode": mode, "padding_mode": padding, "align_corners": corners},
                )
    rois, batch = floats(0, 0, 3, 3, 1, 1, 4, 2).reshape(2, 4), ints(0, 0)
    for mode in ("avg", "max"):
        for transformation in ("half_pixel", "output_half_pixel"):
            yield OneNode(
                f"RoiAlign, {mode}, {transformation}",
                "RoiAlign",
                22,
                (x, rois, batch),
                {
                    "mode": mode,
                    "output_height": 2,
                    "output_width": 2,
                    "sampling_ratio": 2,
                    "coordinate_transformation_mode": transformation,
                },
            )
    yield OneNode("RoiAlign, adaptive", "RoiAlign", 22, (x, rois, batch), {"output_height": 2, "output_width": 2})
    yield OneNode("AffineGrid", "AffineGrid", 20, (normal(1, 2, 3), ints(1, 1, 3, 4)), {"align_corners": 1})
    boxes, scores = np.sort(np.abs(normal(1, 5, 4)), axis=2), np.abs(normal(1, 2, 5))
    limits = (ints(3), floats(0.3), floats(0.1))
    yield OneNode("NonMaxSuppression", "NonMaxSuppression", 11, (boxes, scores, *limits))
    yield OneNode("NonMaxSuppression, centre", "NonMaxSuppression", 11, (boxes, scores, *limits), {"center_point_box": 1})
    yield OneNode(
        "MaxRoiPool", "MaxRoiPool", 22, (normal(1, 1, 6, 6), floats(0, 0, 0, 4, 4).reshape(1, 5)), {"pooled_shape": [2, 2]}
    )
