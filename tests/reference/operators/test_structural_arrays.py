"""The functions that move numbers keep what they are given: the element type, and the subclass that watches rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deep_bench.reference.operators import find


class Watched(np.ndarray):
    """An array that goes through every NumPy function and ufunc, as stochastic arithmetic's does."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        if out:
            options["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        return out[0] if out else _watched(result)

    def __array_function__(self, function, types, arguments, options):
        result = function(*_plain(arguments), **{name: _plain(value) for name, value in options.items()})
        return _watched(result)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value.view(np.ndarray) if isinstance(value, Watched) else value


def _watched(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_watched, value))
    if isinstance(value, np.ndarray | np.generic) and np.asarray(value).dtype.kind == "f":
        return np.asarray(value).view(Watched)
    return value


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape)


GRID = 2 * numbers(1, 3, 3, 2) - 1
CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Reshape", [numbers(2, 3), np.array([3, 2])], {}),
    ("Transpose", [numbers(2, 3)], {}),
    ("Squeeze", [numbers(2, 1)], {}),
    ("Unsqueeze", [numbers(2), np.array([0])], {}),
    ("Flatten", [numbers(2, 3, 4)], {}),
    ("Concat", [numbers(2, 1), numbers(2, 2)], {"axis": 1}),
    ("Split", [numbers(4)], {"num_outputs": 2}),
    ("Slice", [numbers(4), np.array([1]), np.array([3])], {}),
    *(("Pad", [numbers(4), np.array([1, 2])], {"mode": mode}) for mode in ("constant", "reflect", "edge", "wrap")),
    ("Expand", [numbers(1, 3), np.array([2, 1])], {}),
    ("Tile", [numbers(3), np.array([2])], {}),
    ("DepthToSpace", [numbers(1, 4, 1, 2)], {"blocksize": 2}),
    ("SpaceToDepth", [numbers(1, 1, 2, 4)], {"blocksize": 2}),
    ("CenterCropPad", [numbers(3, 5), np.array([4, 4])], {}),
    ("Gather", [numbers(3, 2), np.array([2, 0])], {}),
    ("GatherElements", [numbers(3, 2), np.array([[2, 0]])], {}),
    ("GatherND", [numbers(3, 2), np.array([[2], [0]])], {}),
    *(
        ("ScatterElements", [numbers(3), np.array([1, 1]), numbers(2)], {"reduction": reduction})
        for reduction in ("none", "add", "mul", "max", "min")
    ),
    ("ScatterND", [numbers(3), np.array([[1], [1]]), numbers(2)], {"reduction": "add"}),
    ("TensorScatter", [numbers(1, 4, 2), numbers(1, 1, 2)], {}),
    ("OneHot", [np.array([0, 1]), np.array(2), numbers(2)], {}),
    ("Compress", [numbers(3), np.array([True, False, True])], {}),
    ("Trilu", [numbers(3, 3)], {}),
    ("ReverseSequence", [numbers(3, 2), np.array([3, 2])], {}),
    ("Range", [np.array(0.5), np.array(3.0), np.array(1.0)], {}),
    ("Loop", [np.array(2), None, numbers(2)], {"body": lambda i, going, x: (going, x + x, x)}),
    ("Scan", [numbers(2), numbers(3, 2)], {"body": lambda s, x: (s + x, x), "num_scan_inputs": 1}),
    *(
        ("Resize", [numbers(1, 1, 4, 5), None, np.array([1, 1, 1.5, 0.6])], {"mode": mode, "antialias": antialias})
        for mode in ("nearest", "linear", "cubic")
        for antialias in (0, 1)
    ),
    *(("GridSample", [numbers(1, 2, 4, 5), GRID], {"mode": mode}) for mode in ("nearest", "linear", "cubic")),
    ("AffineGrid", [numbers(1, 2, 3), np.array([1, 1, 2, 3])], {}),
    *(
        (
            "RoiAlign",
            [numbers(1, 2, 8, 8), np.array([[0.3, 1.2, 5.1, 6.4]]), np.array([0])],
            {"mode": mode, "output_width": 2},
        )
        for mode in ("avg", "max")
    ),
    ("MaxRoiPool", [numbers(1, 2, 8, 8), np.array([[0, 1.0, 1, 6, 6]])], {"pooled_shape": (2, 2)}),
    ("DFT", [numbers(1, 5, 1)], {}),
    ("STFT", [numbers(1, 9, 1), np.array(2), numbers(4)], {}),
    ("SplitToSequence", [numbers(3, 2)], {}),
    ("ConcatFromSequence", [[numbers(2), numbers(3)]], {"axis": 0}),
]


def outputs(function: Callable[..., Any], inputs: list[Any], attributes: dict[str, Any]) -> list[Any]:
    results = function(*inputs, **attributes)
    return list(results) if isinstance(results, list | tuple) else [results]


@pytest.mark.parametrize(("operator", "inputs", "attributes"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_watched_arrays_stay_watched(operator, inputs, attributes):
    function = find("", operator)
    expected = outputs(function, inputs, attributes)
    watched = outputs(function, [_watched(x) for x in inputs], attributes)
    for y, z in zip(expected, watched, strict=True):
        assert type(z) is Watched
        assert np.array_equal(y, z)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("operator", "inputs", "attributes"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_the_element_type_is_kept(operator, inputs, attributes, dtype):
    def cast(x):
        if isinstance(x, list):
            return [cast(element) for element in x]
        return x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x

    for y in outputs(find("", operator), [cast(x) for x in inputs], attributes):
        assert y.dtype == dtype


@pytest.mark.parametrize(("operator", "inputs", "attributes"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_views_with_strides_are_read_right_and_left_alone(operator, inputs, attributes):
    def scattered(x):
        if isinstance(x, list):
            return [scattered(element) for element in x]
        if not isinstance(x, np.ndarray) or x.ndim == 0:
            return x
        return np.repeat(x[..., ::-1], 2, axis=-1)[..., ::2][..., ::-1]

    function, views = find("", operator), [scattered(x) for x in inputs]
    expected = outputs(function, inputs, attributes)
    for y, z in zip(expected, outputs(function, views, attributes), strict=True):
        assert np.array_equal(y, z)
    assert all(np.array_equal(x, v) for x, v in zip(inputs, views, strict=True) if isinstance(x, np.ndarray))
