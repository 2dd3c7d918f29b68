"""Gradients of control flow."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.errors import UnsupportedOperator
from deep_bench.network import differentiate
from deep_bench.testing.gradients import gradient_outcome
from tests.network.gradient.checks import cases_of, check
from tests.network.gradient.derived_cases import check_on, check_twice

HEAD = '<ir_version: 10, opset_import: ["": 21]>'


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


IF = f"""{HEAD} g (double[2,3] x, double[3] z, bool c) => (double[2,3] y, double[2,3] w) {{
    z2 = Mul(z, z)
    y, w = If(c) <
        then_branch = t () => (double[2,3] a, double[2,3] b) {{ a = Mul(x, z2)  b = Mul(a, a) }},
        else_branch = e () => (double[2,3] d, double[2,3] f) {{ f = Exp(x)  d = Identity(f) }}>
}}"""


@pytest.mark.parametrize("condition", [True, False])
class TestIf:
    def test_gives_the_gradients_of_the_chosen_branch(self, condition):
        assert check(IF, x=drawn(2, 3), z=drawn(3), c=np.array(condition)) == "right"

    def test_is_differentiated_again(self, condition):
        assert check_twice(IF, x=drawn(2, 3), z=drawn(3), c=np.array(condition)) == "right"

    def test_runs_on_onnxruntime(self, condition):
        assert check_on("onnxruntime", IF, x=drawn(2, 3), z=drawn(3), c=np.array(condition)) == "right"

    def test_returns_what_is_around_it_and_nests(self, condition):
        text = f"""{HEAD} g (double["n"] x, double["n"] z, bool c) => (double["n"] y, double["n"] w) {{
            y, w = If(c) <
                then_branch = t () => (double["n"] a, double["n"] a2) {{ a = Identity(x)  a2 = Identity(x) }},
                else_branch = e () => (double["n"] b, double["n"] b2) {{
                    no = Not(c)
                    b = If(no) <then_branch = t2 () => (double["n"] p) {{ p = Mul(x, z) }},
                                else_branch = e2 () => (double["n"] q) {{ q = Mul(x, x) }}>
                    b2 = Mul(b, z)
                }}>
        }}"""
        assert check(text, x=drawn(4), z=drawn(4, seed=1), c=np.array(condition)) == "right"

    def test_has_no_gradient_where_it_draws_numbers(self, condition):
        text = f"""{HEAD} g (double[2] x, bool c) => (double loss) {{
            y = If(c) <then_branch = t () => (double[2] a) {{ r = RandomNormalLike(x)  a = Mul(x, r) }},
                       else_branch = e () => (double[2] b) {{ b = Identity(x) }}>
            loss = ReduceSum<keepdims = 0>(y)
        }}"""
        with pytest.raises(UnsupportedOperator, match="draws random numbers"):
            differentiate(db.Network.from_proto(onnx.parser.parse_model(text)))


SCAN = f"""{HEAD} g (double[2] s, double[2] k, double[3,2] x, double[2,3] z)
    => (double[2] sn, double[2,3] y, double[3,2] w) {{
    kk = Mul(k, k)
    sn, y, w = Scan<num_scan_inputs = 2, scan_input_directions = [1, 0], scan_input_axes = [0, -1],
                    scan_output_axes = [1, 0], scan_output_directions = [0, 1],
                    body = b (double[2] a, double[2] e, double[2] f) => (double[2] an, double[2] yy, double[2] ww) {{
                        p = Mul(a, e)  an = Add(p, kk)  yy = Mul(an, f)  ww = Mul(yy, k) }}>(s, x, z)
}}"""
SCANNED = {"s": drawn(2), "k": drawn(2, seed=1), "x": drawn(3, 2), "z": drawn(2, 3)}

TWO_STATES = f"""{HEAD} g (double[2] s, int64 n, double["t",2] x) => (double[2] sn, int64 m, double["t",2] y) {{
    sn, m, y = Scan<num_scan_inputs = 1, body = b (double[2] a, int64 i, double[2] e)
                                                 => (double[2] an, int64 j, double[2] o) {{
        one = Constant<value_int = 1>()  j = Add(i, one)  d = Cast<to = 11>(j)
        p = Mul(a, e)  an = Tanh(p)  o = Mul(an, d) }}>(s, n, x)
}}"""


class TestScan:
    def test_goes_back_along_other_axes_and_directions(self):
        assert check(SCAN, **SCANNED) == "right"

    def test_is_differentiated_again(self):
        assert check_twice(SCAN, **SCANNED) == "right"

    @pytest.mark.parametrize("text", [SCAN, TWO_STATES])
    def test_runs_on_onnxruntime(self, text):
        inputs = SCANNED if text is SCAN else {"s": drawn(2), "n": np.array(2), "x": drawn(3, 2)}
        assert check_on("onnxruntime", text, **inputs) == "right"

    @settings(max_examples=6, deadline=None)
    @given(steps=st.integers(0, 5), seed=st.integers(0, 9))
    def test_any_number_of_steps(self, steps, seed):
        assert check(TWO_STATES, s=drawn(2), n=np.array(seed), x=drawn(steps, 2, seed=seed)) == "right"

    def test_a_state_that_starts_constant_depends_on_elements_later(self):
        text = f"""{HEAD} g (double[3] x) => (double last) {{
            zero = Constant<value = double {{0.5}}>()
            last = Scan<num_scan_inputs = 1, body = b (double a, double e) => (double an) {{
                p = Mul(a, e)  an = Add(p, e) }}>(zero, x)
        }}"""
        assert check(text, x=drawn(3)) == "right"

    def test_states_that_pass_through_or_swap(self):
        text = f"""{HEAD} g (double[2] s, double[2] r, double[3,2] x) => (double[2] p, double[2] q, double[3,2] y) {{
            p, q, y = Scan<num_scan_inputs = 1, body = b (double[2] a, double[2] c, double[2] e)
                => (double[2] c2, double[2] a2, double[2] o) {{
                    c2 = Identity(c)  a2 = Identity(a)  o = Mul(a, e) }}>(s, r, x)
        }}"""
        assert check(text, s=drawn(2), r=drawn(2, seed=1), x=drawn(3, 2)) == "right"

    def test_one_tensor_in_every_role(self):
        text = f"""{HEAD} g (double[2] s) => (double[2] sn, double[2] y) {{
            sn, y = Scan<num_scan_inputs = 1, body = b (double[2] a, double e) => (double[2] an, double o) {{
                p = Mul(a, e)  an = Mul(p, s)  o = ReduceSum<keepdims = 0>(an) }}>(s, s)
        }}"""
        assert check(text, s=drawn(2)) == "right"

    def test_half_precision(self):
        text = f"""{HEAD} g (float16[2] s, float16[3,2] x) => (float16[2] sn) {{
            sn = Scan<num_scan_inputs = 1, body = b (float16[2] a, float16[2] e) => (float16[2] an) {{
                an = Mul(a, e) }}>(s, x)
        }}"""
        assert check(text, precise=False, s=drawn(2).astype(np.float16), x=drawn(3, 2).astype(np.float16)) == "right"

    def test_inside_other_graphs(self):
        assert check(NESTED, n=np.array(2), s=drawn(2), k=drawn(2, seed=1), x=drawn(3, 2)) == "right"

    def test_inside_other_graphs_on_onnxruntime(self):
        assert check_on("onnxruntime", NESTED, n=np.array(2), s=drawn(2), k=drawn(2, seed=1), x=drawn(3, 2)) == "right"


NESTED = f"""{HEAD} g (int64 n, double[2] s, double[2] k, double[3,2] x) => (double[2] sn) {{
    kk = Mul(k, k)
    sn = Loop<body = o (int64 i, bool going, double[2] a) => (bool on, double[2] an) {{
        on = Identity(going)
        one = Constant<value_int = 1>()
        second = Equal(i, one)
        an = Scan<num_scan_inputs = 1, body = b (double[2] c, double[2] e) => (double[2] cn) {{
            cn = If(second) <
                then_branch = t () => (double[2] p) {{ ce = Mul(c, e)  p = Add(ce, kk) }},
                else_branch = f () => (double[2] q) {{ ak = Mul(a, k)  q = Mul(ak, c) }}>
        }}>(a, x)
    }}>(n, , s)
}}"""

LOOP = f"""{HEAD} g (int64 n, bool c, double[2] s, double[2] k) => (double[2] sn, double["n",2] y) {{
    kk = Mul(k, k)
    sn, y = Loop<body = b (int64 i, bool was, double[2] a) => (bool going, double[2] an, double[2] o) {{
        p = Mul(a, kk)  d = Cast<to = 11>(i)  q = Mul(p, d)  an = Add(q, k)  o = Mul(an, a)
        total = ReduceSum<keepdims = 0>(an)  limit = Constant<value = double {{1000.0}}>()  going = Less(total, limit)
    }}>(n, c, s)
}}"""


class TestLoop:
    @pytest.mark.parametrize("trips", [0, 1, 4])
    def test_goes_back_over_the_iterations(self, trips):
        assert check(LOOP, n=np.array(trips), c=np.array(True), s=drawn(2), k=drawn(2, seed=1)) == "right"

    def test_is_differentiated_again(self):
        assert check_twice(LOOP, n=np.array(2), c=np.array(True), s=drawn(2), k=drawn(2, seed=1)) == "right"

    @pytest.mark.parametrize("trips", [0, 3])
    def test_runs_on_onnxruntime(self, trips):
        assert check_on("onnxruntime", LOOP, n=np.array(trips), c=np.array(True), s=drawn(2), k=drawn(2, seed=1)) == "right"

    def test_ends_where_the_condition_ended_it(self):
        text = f"""{HEAD} g (bool c, double s) => (double sn, double["n"] y) {{
            sn, y = Loop<body = b (int64 i, bool was, double a) => (bool going, double an, double o) {{
                an = Mul(a, a)  o = Identity(an)  limit = Constant<value = double {{100.0}}>()  going = Less(an, limit)
            }}>(, c, s)
        }}"""
        assert check(text, c=np.array(True), s=np.array(1.5)) == "right"
        assert check(text, c=np.array(False), s=np.array(1.5)) == "right"

    def test_without_carried_values(self):
        text = f"""{HEAD} g (int64 n, bool c, double[3] x) => (double["n"] y) {{
            y = Loop<body = b (int64 i, bool was) => (bool going, double o) {{
                e = Gather(x, i)  o = Mul(e, e)  going = Identity(was) }}>(n, c)
        }}"""
        assert check(text, n=np.array(2), c=np.array(True), x=drawn(3)) == "right"

    def test_a_carried_value_that_changes_its_shape_is_refused(self):
        text = f"""{HEAD} g (int64 n, double[1] x) => (double loss) {{
            y = Loop<body = b (int64 i, bool was, double["k"] a) => (bool going, double[3] an) {{
                p = Concat<axis = 0>(a, a)  shape = Constant<value_ints = [3]>()
                q = ReduceSum<keepdims = 1>(p)  an = Expand(q, shape)  going = Identity(was) }}>(n, , x)
            loss = ReduceSum<keepdims = 0>(y)
        }}"""
        with pytest.raises(UnsupportedOperator, match="changes its shape"):
            differentiate(db.Network.from_proto(onnx.parser.parse_model(text)))

    def test_a_carried_sequence_is_refused(self):
        text = f"""{HEAD} g (int64 n, double[1] x) => (double loss) {{
            s = SequenceConstruct(x)
            y = Loop<body = b (int64 i, bool was, seq(double[1]) a) => (bool going, seq(double[1]) an) {{
                one = SequenceAt(a, i)  an = SequenceInsert(a, one)  going = Identity(was) }}>(n, , s)
            z = ConcatFromSequence<axis = 0>(y)
            loss = ReduceSum<keepdims = 0>(z)
        }}"""
        with pytest.raises(UnsupportedOperator, match="no tensor"):
            differentiate(db.Network.from_proto(onnx.parser.parse_model(text)))


MAP = f"""{HEAD} g (double[2] x, double[3] y, double k, double t) => (double[7] z, double[7] w) {{
    s = SequenceConstruct(x, y, x)
    kk = Exp(k)
    q, r = SequenceMap<body = b (double["n"] e, double tt) => (double["n"] f, double["n"] h) {{
        p = Mul(e, kk)  f = Mul(p, tt)  h = Mul(f, k) }}>(s, t)
    z = ConcatFromSequence<axis = 0>(q)
    w = ConcatFromSequence<axis = 0>(r)
}}"""


class TestSequenceMap:
    def test_maps_the_gradients(self):
        assert check(MAP, x=drawn(2), y=drawn(3), k=drawn(), t=drawn(seed=1)) == "right"

    def test_runs_on_onnxruntime(self):
        assert check_on("onnxruntime", MAP, x=drawn(2), y=drawn(3), k=drawn(), t=drawn(seed=1)) == "right"


LOOP_OVER_SEQUENCE = f"""{HEAD} g (double[2] x, double[2] y, double[2] k) => (double[2] z) {{
    s = SequenceConstruct(x, y, x)
    n = SequenceLength(s)
    z = Loop<body = b (int64 i, bool was, double[2] a) => (bool going, double[2] an) {{
        e = SequenceAt(s, i)  p = Mul(a, e)  an = Add(p, k)  going = Identity(was) }}>(n, , k)
}}"""

SEQUENCE_OR_OTHER = f"""{HEAD} g (double[2] x, double[3] y, double[2] k, bool c) => (double["n"] z) {{
    s = SequenceConstruct(x, y, x)
    q = If(c) <then_branch = t () => (seq(double["n"]) a) {{ a = SequenceInsert(s, k) }},
               else_branch = e () => (seq(double["n"]) b) {{ b = SequenceConstruct(k, x) }}>
    z = ConcatFromSequence<axis = 0>(q)
}}"""


@pytest.mark.parametrize("framework", ["reference", "onnxruntime"])
class TestSequences:
    def test_a_loop_over_a_sequence(self, framework):
        assert check_on(framework, LOOP_OVER_SEQUENCE, x=drawn(2), y=drawn(2, seed=1), k=drawn(2, seed=2)) == "right"

    @pytest.mark.parametrize("condition", [True, False])
    def test_a_branch_that_returns_a_sequence(self, framework, condition):
        inputs = {"x": drawn(2), "y": drawn(3), "k": drawn(2, seed=2), "c": np.array(condition)}
        assert check_on(framework, SEQUENCE_OR_OTHER, **inputs) == "right"


CASES = [
    *("test_loop11", "test_scan_sum", "test_scan9_sum", "test_scan9_multi_state", "test_scan9_scalar"),
    *("test_linear_attention_gated_expanded", "test_linear_attention_decode_step_expanded"),
]


@pytest.mark.parametrize("operator", ["If", "Loop", "Scan"])
def test_cases(operator):
    adapter = db.frameworks["reference"]()
    chosen = [c for c in cases_of(operator) if c.name in CASES or not c.name.startswith("test_")]
    found = [o for c in chosen if (o := gradient_outcome(adapter, c)) is not None]
    assert found
    assert all(o.word in ("right", "kink") for o in found), [o for o in found if o.word not in ("right", "kink")]
