"""Tensors made from little. What is drawn at random is excluded: its distribution is tested apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from deep_bench.tensor import STRING, is_float, is_integer
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, code_of, dtypes

Generator = Callable[[Draw], GeneratedProblem]


def results(operator: str, index: int = 0) -> tuple[np.dtype, ...]:
    """The element types that an operator's schema allows for a result, the narrowest formats left out."""
    schema = onnx.defs.get_schema(operator)
    names = (t[len("tensor(") : -1].upper() for t in sorted(schema.outputs[index].types))
    codes = [onnx.TensorProto.DataType.Value(name) for name in names]
    types = [np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code)) for code in codes if code != onnx.TensorProto.STRING]
    return tuple(sorted(types, key=lambda d: (d != np.float32, not is_float(d))))


def Constant(draw: Draw) -> GeneratedProblem:
    """Each of the attributes but the sparse one, which few know."""
    kind = draw.pick(("value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings"))
    numbers = tuple(draw.integer(-9, 9) for _ in range(draw.integer(1, 4)))
    words = draw.array((2,), STRING).tolist()
    value = {
        "value": draw.array(draw.shape(), draw.pick(dtypes("Identity"))),
        "value_float": numbers[0] / 4,
        "value_floats": tuple(n / 4 for n in numbers),
        "value_int": numbers[0],
        "value_ints": numbers,
        "value_string": words[0],
        "value_strings": words,
    }[kind]
    return GeneratedProblem("Constant", [], {kind: value})


def ConstantOfShape(draw: Draw) -> GeneratedProblem:
    """Of any element type; also of no axes, and without elements."""
    shape = np.array(draw.shape(), np.int64).reshape(-1)
    value = draw.array((1,), draw.pick(results("ConstantOfShape")))
    return GeneratedProblem("ConstantOfShape", [shape], {"value": draw.maybe(np.ascontiguousarray(value))})


def EyeLike(draw: Draw) -> GeneratedProblem:
    """Diagonals inside and outside, in the input's element type or another."""
    x = draw.array(draw.shape(2, 2), draw.pick(dtypes("EyeLike")))
    dtype = draw.pick((None, code_of(draw.pick(results("EyeLike")))))
    return GeneratedProblem("EyeLike", [x], {"dtype": dtype, "k": draw.pick((None, draw.integer(-4, 4)))})


def Range(draw: Draw) -> GeneratedProblem:
    """Steps of both signs, and ranges without elements; steps are such that no rounding decides on an element."""
    dtype = draw.pick(dtypes("Range"))
    start, count = draw.integer(-9, 9), draw.integer(-2, 9)
    step = draw.pick((1, -1, 2, -3)) if is_integer(dtype) else draw.pick((1, 0.5, -0.25, -3, 1.5))
    limit = start + count * step - (0 if is_integer(dtype) else step / 4)
    scalars = [np.array(v).astype(dtype) for v in (start, limit, step)]
    return GeneratedProblem("Range", scalars, {"stash_type": draw.pick((None, None, 1))})


def window(operator: str) -> Generator:
    """Periodic or symmetric, in the floating-point types; a symmetric one of one element, 0 / 0, is left open."""
    floats = [dtype for dtype in results(operator) if is_float(dtype)]

    def generate(draw: Draw) -> GeneratedProblem:
        periodic = draw.pick((None, 0, 1))
        size = np.array(draw.integer(2 if periodic == 0 else 1, 12), draw.pick((np.int64, np.int32)))
        dtype = draw.pick((None, code_of(draw.pick(floats))))
        return GeneratedProblem(operator, [size], {"output_datatype": dtype, "periodic": periodic})

    return generate


def MelWeightMatrix(draw: Draw) -> GeneratedProblem:
    """Speech-like and odd settings; in the floating-point types, since integers would cut the triangles."""
    rate = draw.pick((8000, 16000, 22050, 44100))
    low = draw.integer(0, 400)
    high = draw.integer(low + 500, rate // 2)
    counts = [np.array(n, draw.pick((np.int64, np.int32))) for n in (draw.integer(1, 12), draw.integer(8, 64), rate)]
    edges = [np.array(n, np.float32) for n in (low, high)]
    floats = [dtype for dtype in results("MelWeightMatrix") if is_float(dtype)]
    dtype = draw.pick((None, code_of(draw.pick(floats))))
    return GeneratedProblem("MelWeightMatrix", [*counts, *edges], {"output_datatype": dtype})


GENERATORS: dict[str, Generator] = {
    "Constant": Constant,
    "ConstantOfShape": ConstantOfShape,
    "EyeLike": EyeLike,
    "MelWeightMatrix": MelWeightMatrix,
    "Range": Range,
    **{name: window(name) for name in ("BlackmanWindow", "HammingWindow", "HannWindow")},
}
