"""Gradients of what moves, joins and cuts tensors."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.network import differentiate
from tests.network.gradient.checks import alone, check, twice

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    "operator",
    [
        "CenterCropPad",
        "Concat",
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Pad",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    ],
)
def test_cases(operator: str) -> None:
    found = alone(operator)
    assert found
    others = [o for o in found if o.word not in ("right", "kink")]
    # float8e8m0 cannot hold gradients.
    assert [o for o in others if "no 0" not in o.detail] == []


@pytest.mark.parametrize(
    "text",
    [
        "(double[n, 4] x) => (double[a, 2] y) { s = Constant<value_ints=[-1, 2]>() z = Reshape(x, s) y = Mul(z, z) }",
        "(double[a, b] x) => (double[c, d, e] y) { z = Unsqueeze<axes>(x, axes) y = Mul(z, z) }",
        "(double[n, 4] x) => (double[4, n] y) { z = Transpose(x) y = Mul(z, z) }",
        "(double[n, 4] x) => (double[a, b] y) { z = Flatten<axis = -1>(x) y = Mul(z, z) }",
        "(double[n, 4] x) => (double[a] y) { z = Flatten<axis = 0>(x) w = Squeeze(z) y = Mul(w, w) }",
    ],
)
def test_forms(text: str) -> None:
    text = text.replace("<axes>", "").replace("{ z = Unsqueeze", "{ axes = Constant<value_ints=[0]>() z = Unsqueeze")
    assert check(HEAD + text, x=drawn(3, 4)) == "right"


@pytest.mark.parametrize("dims", ["3, 4", "n, m"])
@pytest.mark.parametrize("axis", [-2, 0])
def test_joins_parts_of_different_lengths(dims: str, axis: int) -> None:
    text = f"(double[{dims}] a, double[{dims.replace('3', '2').replace('n', 'k')}] b) => (double[j, 4] y) "
    assert check(HEAD + text + f"{{ y = Concat<axis = {axis}>(a, b, a) }}", a=drawn(3, 4), b=drawn(2, 4)) == "right"


def test_of_parts_that_nobody_uses_it_is_zero() -> None:
    text = "(double[5, n] x) => (double[1, n] y) { a, b, c = Split<num_outputs = 3>(x) y = Mul(c, c) }"
    assert check(HEAD + text, x=drawn(5, 2)) == "right"


SLICES = [
    ((1,), (3,), (0,), (1,)),
    ((-1,), (-9,), (-2,), (-1,)),
    ((0, 5), (9, 0), (0, 1), (2, -2)),
    ((4,), (2,), (1,), (1,)),
]
SLICES += [
    ((9,), (0,), (1,), (-3,)),
    ((1, 1), (3, 4), (0, 1), (1, 3)),
    ((0,), (5,), (1,), (-1,)),
    ((-3,), (99,), (1,), (2,)),
]


@pytest.mark.parametrize("bounds", SLICES)
@pytest.mark.parametrize("dims", ["4, 6", "n, m"])
@pytest.mark.parametrize("known", ["all", "steps", "none"])
def test_slices(bounds: tuple[tuple[int, ...], ...], dims: str, known: str) -> None:
    names = ("starts", "ends", "axes", "steps")
    fixed = {"all": names, "steps": names[2:], "none": ()}[known]
    fed = {n: np.array(b, np.int64) for n, b in zip(names, bounds, strict=True) if n not in fixed}
    constants = "".join(
        f"{n} = Constant<value_ints = {list(b)}>() " for n, b in zip(names, bounds, strict=True) if n in fixed
    )
    inputs = "".join(f", int64[{len(b)}] {n}" for n, b in fed.items())
    text = f"(double[{dims}] x{inputs}) => (double[a, b] y) {{ {constants} "
    text += "z = Slice(x, starts, ends, axes, steps) y = Mul(z, z) }"
    assert check(HEAD + text, x=drawn(4, 6), **fed) == "right"


def test_slices_without_axes() -> None:
    text = "(double[n, 6] x, int64[k] s, int64[k] e) => (double[a, b] y) { y = Slice(x, s, e) }"
    assert check(HEAD + text, x=drawn(4, 6), s=numbers(1, -2), e=numbers(3, 6)) == "right"


PADS = [("constant", (1, 0, 2, 3)), ("constant", (-1, 2, 1, -2)), ("reflect", (2, 0, 1, 3)), ("edge", (2, -1, 0, 3))]
PADS += [("wrap", (1, 2, 3, 0)), ("wrap", (4, 0, 0, 9)), ("reflect", (-1, 1, 0, 2))]


@pytest.mark.parametrize(("mode", "pads"), PADS)
@pytest.mark.parametrize("known", [True, False])
def test_pads(mode: str, pads: tuple[int, ...], known: bool) -> None:
    constants = f"pads = Constant<value_ints = {list(pads)}>() " if known else ""
    shape, more = ("3, 4", "") if known else ("n, m", ", int64[4] pads")
    text = f'(double[{shape}] x{more}) => (double[a, b] y) {{ {constants} z = Pad<mode = "{mode}">(x, pads) y = Mul(z, z) }}'
    fed = {} if known else {"pads": numbers(*pads)}
    assert check(HEAD + text, x=drawn(3, 4), **fed) == "right"


def test_of_a_pads_value_it_is_the_sum_over_what_is_new() -> None:
    text = "(double[n, 3] x, int64[2] p, double c, int64[1] axes) => (double[n, 4] y) { y = Pad(x, p, c, axes) }"
    assert check(HEAD + text, x=drawn(2, 3), p=numbers(2, -1), c=np.array(0.5), axes=numbers(-1)) == "right"


@pytest.mark.parametrize("repeats", [(1, 1), (2, 3), (1, 3), (0, 2)])
@pytest.mark.parametrize("dims", ["2, 3", "n, m"])
@pytest.mark.parametrize("known", [True, False])
def test_tiles(repeats: tuple[int, int], dims: str, known: bool) -> None:
    constants = f"r = Constant<value_ints = {list(repeats)}>() " if known else ""
    more = "" if known else ", int64[2] r"
    text = f"(double[{dims}] x{more}) => (double[a, b] y) {{ {constants} z = Tile(x, r) y = Mul(z, z) }}"
    assert check(HEAD + text, x=drawn(2, 3), **({} if known else {"r": numbers(*repeats)})) == "right"


@pytest.mark.parametrize("dims", ["1, 3", "n, 3"])
def test_expands_at_both_sides(dims: str) -> None:
    text = f"(double[{dims}] x, int64[3] s) => (double[a, b, c] y) {{ y = Expand(x, s) }}"
    assert check(HEAD + text, x=drawn(1, 3), s=numbers(2, 4, 1)) == "right"


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("known", [True, False])
def test_depth_and_space(mode: str, known: bool) -> None:
    for operator, shape in (("DepthToSpace", (1, 8, 2, 3)), ("SpaceToDepth", (1, 2, 4, 2))):
        dims = ", ".join(map(str, shape)) if known else "n, c, h, w"
        text = f"(double[{dims}] x) => (double[n, d, a, b] y) "
        text += f'{{ z = {operator}<blocksize = 2, mode = "{mode}">(x) y = Mul(z, z) }}'
        assert check(HEAD.replace("10", "14").replace("21", "28") + text, x=drawn(*shape)) == "right"


@pytest.mark.parametrize("axes", ["axes = [1, 0], ", "axes = [-1, -2], "])
def test_crops_and_pads_around_the_centre(axes: str) -> None:
    text = f"(double[n, 4] x, int64[2] s) => (double[a, b] y) {{ z = CenterCropPad<{axes[:-2]}>(x, s) y = Mul(z, z) }}"
    assert check(HEAD + text, x=drawn(5, 4), s=numbers(7, 2)) == "right"


def test_tensors_of_nothing_have_gradients_of_nothing() -> None:
    text = (
        "(double[0, 3] x) => (double[0, 6] y) { a, b, c = Split<axis = 1, num_outputs = 3>(x) z = Concat<axis = 1>(c, x, a) "
    )
    assert (
        check(
            HEAD + text + "i = Constant<value_ints = [1]>() k = Constant<value_ints = [9]>() y = Slice(z, i, k, i) }",
            x=drawn(0, 3),
        )
        == "right"
    )


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_any_slice_of_any_shape(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    bounds = [data.draw(st.lists(st.integers(-6, 6), min_size=len(axes), max_size=len(axes))) for _ in range(2)]
    steps = data.draw(st.lists(st.sampled_from([-3, -2, -1, 1, 2, 3]), min_size=len(axes), max_size=len(axes)))
    names = dict(zip(("s", "e", "a", "t"), (*bounds, axes, steps), strict=True))
    constants = "".join(f"{n} = Constant<value_ints = {v}>() " for n, v in names.items())
    dims = ", ".join(map(str, shape)) if data.draw(st.booleans()) else ", ".join("abc"[: len(shape)])
    text = f"(double[{dims}] x) => (double[{', '.join('ijk'[: len(shape)])}] y) {{ {constants} "
    text += "z = Slice(x, s, e, a, t) y = Mul(z, z) }"
    assert check(HEAD + text, x=drawn(*shape)) == "right"


def test_second_derivatives() -> None:
    text = "(double[3, 4] x) => (double l) <int64[1] a = {1}, int64[1] b = {-9}, int64[1] c = {-2}, "
    text += "int64[4] p = {1, 0, 2, -1}> "
    text += '{ s = Slice(x, a, b, a, c) e = Pad<mode = "edge">(s, p) q = Mul(e, e) u = Concat<axis = 0>(q, e) '
    text += "v, w = Split<num_outputs = 2>(u) k = Mul(v, w) l = ReduceSum<keepdims = 0>(k) }"
    assert twice(HEAD + text, x=drawn(3, 4)) == "right"


def test_pads_are_written_for_all_axes() -> None:
    """ONNX Runtime takes the pads of named axes for those of all where it moves a transpose past them."""
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2,3,4] x) => (float loss)
        <int64[1] start = {1}, int64[1] end = {3}, int64[1] axis = {2}> {
        t = Transpose<perm = [0, 2, 1]>(x) s = Slice(t, start, end, axis) u = Transpose<perm = [0, 2, 1]>(s)
        z = Mul(u, u) loss = ReduceSum<keepdims = 0>(z) }"""
    pytest.importorskip("onnxruntime")
    derived = differentiate(db.Network.from_proto(onnx.parser.parse_model(text)))
    pads = [node for node in derived.nodes if node.op_type == "Pad"]
    assert pads
    assert all(len(node.inputs) < 4 for node in pads)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    found = db.frameworks["onnxruntime"]().prepare(derived)({"x": x})["d(loss)/d(x)"]
    expected = 2 * x
    expected[:, 0] = 0
    np.testing.assert_array_equal(found, expected)
