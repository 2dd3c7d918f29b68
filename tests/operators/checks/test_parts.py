"""What the checks are made of."""

from __future__ import annotations

import math
import re
from contextlib import contextmanager

import numpy as np
import pytest

from deep_bench import Case, Operator
from deep_bench.errors import Unsupported
from deep_bench.operators.argument import Argument
from deep_bench.operators.checks import Problem, error_maps, repeatability, small_cases
from deep_bench.operators.checks.arrays import LAYOUTS, Arrangement, assign, available_layouts, memory_of, overlap, poison_of
from deep_bench.operators.checks.problem import Prepared
from deep_bench.operators.checks.repeatability import rows_of
from deep_bench.operators.checks.run import check_of
from deep_bench.operators.checks.slopes import noise_of, on_grid, slopes_of, steps_of
from deep_bench.operators.operator import Host
from deep_bench.tensor import TensorSpec
from tests.operators.checks.correct import CASES, Gelu, Gemm, Relu
from tests.operators.checks.tricks import Exp

STEPS = steps_of(np.dtype("float64"))


def _slopes(*functions, noise=1e-16, steps=STEPS):
    line = lambda t: np.array([f(t) for f in functions])  # noqa: E731
    return slopes_of(line, line(0.0), np.full(len(functions), noise), steps)


def test_slopes_of_smooth_functions_are_exact_within_their_error() -> None:
    found = _slopes(math.exp, math.sin, lambda t: (1 + t) ** 5, lambda t: 3 * t, lambda t: 1.0)
    assert found.smooth.all()
    error = np.abs(found.value - [1, 1, 5, 3, 0])
    assert (error <= found.error + 6 * found.noise).all()
    assert (error < 1e-11).all()


def test_kinks_jumps_and_holes_have_no_slope() -> None:
    found = _slopes(abs, lambda t: max(t, 0.0), lambda t: -abs(t - 1e-9), math.floor, lambda t: math.nan, lambda t: t)
    assert found.smooth.tolist() == [False, False, False, False, False, True]
    assert found.kink.tolist() == [True, True, True, False, False, False]
    assert np.allclose(found.low[:3], [-1, 0, -1], atol=1e-5)
    assert np.allclose(found.high[:3], [1, 1, 1], atol=1e-5)


def test_a_kink_beside_the_point_is_no_slope_either() -> None:
    found = _slopes(lambda t: max(t - STEPS[-1] / 2, 0.0), lambda t: max(t - 2 * STEPS[0], 0.0))
    assert found.smooth.tolist() == [False, True]


def test_neighbours_that_agree_by_chance_are_told() -> None:
    steps = steps_of(np.dtype("float32"))
    found = _slopes(lambda t: math.atan(1 / math.sqrt(3) + t), noise=6e-8, steps=steps)
    assert abs(found.value[0] - 0.75) <= 2 * found.error[0] + 6 * found.noise[0]


def test_noise_is_seen_in_the_functions_themselves() -> None:
    rng = np.random.default_rng(0)
    size = 2000
    line = lambda t: np.sin(np.arange(size) + t) + 1e-5 * rng.standard_normal(size)  # noqa: E731
    found = noise_of(line, line(0.0), np.full(size, 1e-7), 1e-6)
    assert 0.8e-5 < found[0] < 1.25e-5
    quiet = lambda t: np.sin(np.arange(size) + t)  # noqa: E731
    assert noise_of(quiet, quiet(0.0), np.full(size, 1e-7), 1e-6)[0] == 1e-7


def test_steps_from_a_grid_are_exact() -> None:
    for dtype in ("float32", "float16"):
        x = on_grid(np.random.default_rng(0).standard_normal(200).astype(dtype))
        for step in steps_of(np.dtype(dtype)):
            moved = (x.astype(np.float64) + step).astype(dtype)
            assert (moved.astype(np.float64) - x.astype(np.float64) == step).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_a_layout_keeps_the_contents(layout, dtype) -> None:
    x = np.random.default_rng(0).integers(0, 2, (2, 3, 4)).astype(dtype)
    arrangement = Arrangement(layout)
    prepared = Prepared(Exp(), Case.of("Exp", (2,)).network())
    found = arrangement(prepared, {"x": x})["x"]
    if layout == "odd address" and dtype == "bool":
        assert not arrangement.applied
        return
    assert arrangement.applied
    assert np.array_equal(found, x)
    assert found.strides != x.strides or layout in ("storage offset", "odd address")
    assert arrangement.untouched(prepared.device)
    found[...] = 1 - found.astype(np.int8)
    assert not arrangement.untouched(prepared.device)


def test_what_lies_between_elements_is_watched() -> None:
    arrangement = Arrangement("rows apart")
    prepared = Prepared(Exp(), Case.of("Exp", (2,)).network())
    arrangement(prepared, {"x": np.zeros((2, 3), np.float32)})
    base = arrangement.placed[0].base
    assert np.isnan(base[:, 3:]).all()
    base[0, 4] = 0
    assert not arrangement.untouched(prepared.device)


def test_scalars_and_vectors_have_fewer_layouts() -> None:
    assert available_layouts(Host(), {"x": np.zeros((), np.float32)}) == ["storage offset", "odd address"]
    assert available_layouts(Host(), {"x": np.zeros((0, 3), np.float32)}) == []


def test_poison_is_told_from_contents() -> None:
    for dtype in ("float32", "float16", "int64", "bool", "complex64", "uint8"):
        x = np.zeros(3, dtype)
        assert not np.array_equal(poison_of(x), x)
        assert poison_of(x).dtype == x.dtype
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    assert not assign(Host(), fixed, np.ones(3))


def test_memory_is_told() -> None:
    x = np.zeros(10)
    assert overlap(x[:5], x[4:])
    assert not overlap(x[:5], x[5:])
    assert memory_of("text") is None
    assert overlap("text", x) is None


def test_small_cases_keep_what_belongs_together() -> None:
    cases = small_cases(Case.of("Gather", (100, 8), (4,)))
    assert {c.arguments[0].shape for c in cases} >= {(1, 8), (100, 1), (100, 0), (100, 8)}
    assert {c.arguments[1].draw for c in cases if c.arguments[0].shape[0] == 1} == {"indices:1"}
    assert all(c.arrays()["indices"].max(initial=0) < c.arguments[0].shape[0] for c in cases)
    own = Case("Gather", (Argument(TensorSpec("", (9, 4), np.dtype("float32"))), Argument.constant([1, 2])))
    assert all(c.arguments[1].value.tolist() == [1, 2] for c in small_cases(own))


def test_equal_sizes_shrink_together_and_apart() -> None:
    shapes = {tuple(a.shape for a in c.arguments) for c in small_cases(Case.of("Gemm", (8, 8), (8, 8)), sizes=(1,))}
    assert shapes == {((1, 1), (1, 1)), ((1, 8), (8, 8)), ((8, 8), (8, 1)), ((8, 1), (1, 8)), ((1, 8), (8, 1))}


@pytest.mark.parametrize(
    ("case", "inputs"),
    [
        (Case.of("Gemm", (4, 3), (3, 2), (4, 2)), {"A": 0, "C": 0}),
        (Case.of("Gemm", (4, 3), (3, 2), (2,)), {"A": 0}),
        (Case.of("MatMul", (4, 3, 5), (4, 5, 2)), {"A": 0, "B": 0}),
        (Case.of("Add", (4, 3), (3,)), {"A": 0}),
        (Case.of("LayerNormalization", (4, 6), (6,)), {"X": 0}),
        (Case.of("ReduceSum", (4, 6), [1]), {"data": 0}),
        (Case.of("ReduceSum", (4, 6), [0]), None),
        (Case.of("Softmax", (4, 6), axis=0), None),
        (Case.of("Relu", (1, 6)), None),
        (Case.of("Transpose", (4, 6)), None),
        (Case.of(np.tanh, (4, 6)), None),
    ],
    ids=str,
)
def test_rows_are_known(case, inputs) -> None:
    found = rows_of(case)
    assert (None if found is None else dict(found.inputs)) == inputs
    if found is not None:
        assert found.cut(case, 2).results[0].shape[0] == 2


def test_a_function_of_the_users_is_checked() -> None:
    def swiglu(x, gate):
        return x / (1 + np.exp(-x)) * gate

    class Swiglu(Operator):
        computes = swiglu

        def forward(self, x, gate):
            return x * gate / (1 + np.exp(-x))

        def backward(self, grads, inputs, outputs):
            x, gate = inputs
            s = 1 / (1 + np.exp(-x))
            return grads[0] * gate * s * (1 + x * (1 - s)), grads[0] * x * s

    class WrongSwiglu(Swiglu):
        def backward(self, grads, inputs, outputs):
            dx, dgate = super().backward(grads, inputs, outputs)
            return dx * np.float32(1.01), dgate

    problem = Problem(Case.of(swiglu, (6, 20), (6, 20)))
    for check, word in (("forward", "right"), ("layout", "right"), ("sizes", "right"), ("slopes", "right")):
        assert check_of(check)(Swiglu(), problem).word == word
    assert check_of("backward")(Swiglu(), problem).word == "right"
    assert check_of("backward")(WrongSwiglu(), problem).word == "wrong"
    assert check_of("slopes")(WrongSwiglu(), problem).word == "wrong"


def test_weights_that_are_constant_have_gradients_too() -> None:
    weights = np.random.default_rng(0).standard_normal((17, 24)).astype(np.float32)
    problem = Problem(Case.of("Gemm", (9, 17), weights))
    assert check_of("backward")(Gemm(), problem).word == "right"
    assert check_of("contract")(Gemm(), problem).word == "right"

    class Off(Gemm):
        def backward(self, grads, inputs, outputs, **attributes):
            da, db = super().backward(grads, inputs, outputs, **attributes)
            return da, db * np.float32(1.01)

    assert "gradient of B" in check_of("backward")(Off(), problem).place


class Split(Operator):
    computes = "Split"

    def forward(self, x, sizes=None, *, axis=0, num_outputs=None):
        return tuple(np.array(part) for part in np.split(x, np.cumsum(sizes)[:-1], axis=axis))

    def backward(self, grads, inputs, outputs, **attributes):
        parts = [np.zeros_like(y) if g is None else g for g, y in zip(grads, outputs, strict=True)]
        return np.concatenate(parts), None


def test_a_loss_of_one_of_several_outputs_has_gradients() -> None:
    class Insists(Split):
        def backward(self, grads, inputs, outputs, **attributes):
            return np.concatenate(grads), None

    problem = Problem(Case.of("Split", (6, 4), [2, 4]))
    right = check_of("backward")(Split(), problem)
    assert (right.word, len(right.parts)) == ("right", 4)
    finding = check_of("backward")(Insists(), problem)
    assert (finding.word, finding.place) == ("failed", "normal inputs, a loss of outputs_0 alone")
    assert check_of("slopes")(Split(), problem).word == "right"
    assert check_of("contract")(Split(), problem).word == "right"


def test_threads_that_change_bits_are_told(monkeypatch) -> None:
    class Pools:
        """A pool of four threads, as a kernel sees it."""

        threads = 4

        def info(self):
            return [{"num_threads": 4}]

        @contextmanager
        def limit(self, *, limits):
            Pools.threads = limits
            yield
            Pools.threads = 4

    class Chunked(Operator):
        computes = "ReduceSum"
        off = 0.0

        def forward(self, x, axes, *, keepdims=1):
            parts = np.array_split(x, Pools.threads, axis=1)
            total = sum(part.sum(axis=1, keepdims=True) for part in parts)
            return total + np.float32(self.off * Pools.threads)

    problem = Problem(Case.of("ReduceSum", (6, 400), [1]))
    operator = Chunked()
    monkeypatch.setattr(repeatability, "ThreadpoolController", Pools)
    finding = check_of("threads")(operator, problem)
    assert finding.word == "right"
    assert finding.reason.startswith("not the same bits: 4 threads and fewer differ by")
    assert 0 < finding.figures["spread"] < 1e-6
    operator.off = 0.01
    assert check_of("threads")(operator, problem).word == "wrong"


def test_a_relaxed_kernel_is_judged_norm_wise_only_if_it_says_so() -> None:
    class Strassen(Gemm):
        """A product whose errors are relative to the largest element."""

        def product(self, a, b):
            y = a @ b
            noise = np.random.default_rng(0).standard_normal(y.shape) * 2.0**-22
            return y + (noise * np.abs(y).max(initial=0)).astype(y.dtype)

    problem = Problem(Case.of("Gemm", (9, 17), (17, 24)))
    operator = Strassen()
    assert check_of("forward")(operator, problem).word in ("wrong", "reduced precision")
    operator.norm_wise = True
    finding = check_of("forward")(operator, problem)
    assert all(p.word == "right" for p in finding.parts if p.place.startswith("normal")), str(finding)


def test_declared_views_and_buffers_are_no_fault() -> None:
    class View(Operator):
        computes = "Reshape"

        def forward(self, x, shape, *, allowzero=0):
            return x.reshape(shape)

    problem = Problem(Case.of("Reshape", (4, 6), [6, 4]))
    operator = View()
    finding = check_of("contract")(operator, problem)
    assert "returns_views = True" in finding.reason
    operator.returns_views = True
    assert check_of("contract")(operator, problem).word == "right"
    assert check_of("unfinished")(operator, problem).word == "right"


def test_special_inputs_leave_most_results_finite() -> None:
    problem = Problem(CASES["gemm"])
    found = problem.inputs("special")
    for array in found.values():
        assert 1 <= np.sum(~np.isfinite(array)) <= 3
    assert np.isfinite(problem.truth("special").outputs["Y"]).any()


def test_error_maps_show_where_it_is_wrong() -> None:
    class Off(Gemm):
        def forward(self, a, b, c=None, **attributes):
            y = super().forward(a, b, c, **attributes)
            y[2, 3] += np.abs(y).max()
            y[5, 7] = np.nan
            return y

    (found,) = error_maps(Off(), CASES["gemm"])
    assert np.isinf(found.ratio[5, 7])
    assert found.worst == (5, 7)
    assert found.ratio[2, 3] > 1e5
    assert np.delete(found.ratio.ravel(), [2 * 24 + 3, 5 * 24 + 7]).max() < 24
    names = [m.title for m in error_maps(Gelu(), CASES["gelu"], direction="backward")]
    assert names == ["Gelu, Gelu 11x20, gradient of X, normal inputs"]
    with pytest.raises(Unsupported, match="has no gradient"):
        error_maps(Exp(), Case.of("Exp", (3,)), direction="backward")


def test_kinks_are_recognised_and_told() -> None:
    finding = check_of("slopes")(Relu(), Problem(CASES["relu"]))
    assert finding.word == "right"
    ties = next(p for p in finding.parts if "ties" in p.place)
    assert ties.figures["masked"] > 20


def test_the_sensitivity_of_slopes_leaves_no_room_for_a_percent() -> None:
    problem = Problem(Case.of("Gemm", (64, 512), (512, 48)))
    finding = check_of("slopes")(Gemm(), problem)
    assert finding.word == "right"
    assert finding.figures["sensitivity"] < 1e-3


class Pow(Operator):
    """Its gradient at 0 to the power of 0 is NaN, whatever it is multiplied with."""

    computes = "Pow"

    def forward(self, x, y):
        return np.power(x, y)

    def backward(self, grads, inputs, outputs):
        x, y = inputs
        return grads[0] * y * np.power(x, y - 1), grads[0] * outputs[0] * np.log(x)


def test_singular_points_are_left_alone_but_not_everywhere() -> None:
    problem = Problem(Case.of("Pow", (5, 12), (5, 12)), seed=3)
    assert check_of("slopes")(Pow(), problem).word == "right"

    class Nan(Pow):
        def backward(self, grads, inputs, outputs):
            return tuple(np.full_like(x, np.nan) for x in inputs)

    finding = check_of("slopes")(Nan(), problem)
    assert (finding.word, finding.reason.partition(", ")[0]) == (
        "wrong",
        "backward gives NaN or infinities for gradients of 0",
    )


def test_large_outputs_are_sampled() -> None:
    class Tanh(Operator):
        computes = "Tanh"
        factor = 1.0

        def forward(self, x):
            return np.tanh(x)

        def backward(self, grads, inputs, outputs):
            return (grads[0] * (1 - outputs[0] * outputs[0]) * np.float32(self.factor),)

    problem = Problem(Case.of("Tanh", (300, 400)))
    operator = Tanh()
    assert check_of("slopes")(operator, problem).word == "right"
    operator.factor = 1.01
    assert check_of("slopes")(operator, problem).word == "wrong"


class NaiveGelu(Operator):
    """Its gradient squares its input, which is infinite from 1.9e19 on in float32, and times 0 no number."""

    computes = "Gelu"
    factor = np.float32(np.sqrt(2 / np.pi))

    def forward(self, x, *, approximate="tanh"):
        cube = np.float32(0.044715) * x * x * x
        return np.float32(0.5) * x * (1 + np.tanh(self.factor * (x + cube)))

    def backward(self, grads, inputs, outputs, *, approximate="tanh"):
        (x,) = inputs
        tanh = np.tanh(self.factor * (x + np.float32(0.044715) * x * x * x))
        slope = self.factor * (1 + np.float32(3 * 0.044715) * x * x)
        return (grads[0] * np.float32(0.5) * (1 + tanh + x * (1 - tanh * tanh) * slope),)


def test_a_gradient_that_is_no_number_where_the_true_one_is_says_at_which_input() -> None:
    case = Case.of("Gelu", (4, 16), approximate="tanh")
    found = check_of("backward")(NaiveGelu(), case, distributions=["normal", "huge"])
    assert found.word == "wrong"
    said = r"where the oracle's are not: first \[0, 0\], which is nan instead of -?[\d.e+-]+, and 1 of 2 are right"
    assert re.search(said, found.reason)
    assert re.search(r"gradient of X\[0, 0\] at -?\d(\.\d+)?e\+3\d", found.place)
