"""Gradients of attention and its relatives, and of optimizers' steps."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.network import differentiate
from tests.network.gradient.checks import cases_of, check, gradient_outcome

SAMPLED = {"Attention": 15, "LinearAttention": 5, "RotaryEmbedding": 2, "CausalConvWithState": 3, "FlexAttention": 3}
"""Every how many-th of an operator's cases is run here."""


@pytest.mark.parametrize("operator", [*SAMPLED, "Adagrad", "Adam", "Momentum"])
def test_cases(operator: str) -> None:
    adapter = db.frameworks["reference"]()
    chosen = [c for c in cases_of(operator) if "_expanded" not in c.name][:: SAMPLED.get(operator, 1)]
    found = [gradient_outcome(adapter, case) for case in chosen]
    assert found
    assert [o for o in found if o is None or o.word not in ("right", "kink")] == []


def network(operator: str, shapes: dict[str, str], outputs: str, kind: str = "double") -> str:
    """A network of one node; every value is of one kind but those whose shape names another."""
    fed = ", ".join((s if s[0] != "[" else f"{kind}{s}") + f" {name}" for name, s in shapes.items() if s)
    given_ = ", ".join(f"{kind}{o}" for o in outputs.split())
    results = ", ".join(o.rpartition("]")[2] for o in outputs.split())
    feeds = ", ".join(name if s else '""' for name, s in shapes.items())
    return f'<ir_version: 10, opset_import: ["" : 28]> g ({fed}) => ({given_}) {{ {results} = {operator}({feeds}) }}'


def arrays(seed: int = 0, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: np.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}


def in_float32(text: str, **inputs: np.ndarray) -> str:
    """`check` for operators that have no double."""
    return check(text, precise=False, **{n: a.astype(np.float32) if a.dtype == np.float64 else a for n, a in inputs.items()})


QKV = {"q": "[2,2,3,4]", "k": "[2,2,5,4]", "v": "[2,2,5,2]"}


def qkv(queries: int = 3, keys: int = 5, heads: int = 2, shared: int = 2, features: int = 4) -> dict[str, np.ndarray]:
    return arrays(q=(2, heads, queries, features), k=(2, shared, keys, features), v=(2, shared, keys, 2))


@pytest.mark.parametrize(
    "attributes",
    ["", "<is_causal = 1>", "<softcap = 0.7>", "<scale = 0.3>", "<left_window_size = 1, right_window_size = 0>"],
)
@pytest.mark.parametrize("named", [False, True])
def test_attention(attributes: str, named: bool) -> None:
    shapes = {"q": "[n,2,s,d]", "k": "[n,2,t,d]", "v": "[n,2,t,e]"} if named else QKV
    text = network(f"Attention{attributes}", shapes, f"{shapes['q'][:-2]}{shapes['v'][-2:]}y")
    assert check(text, **qkv()) == "right"


@pytest.mark.parametrize("named", [False, True])
def test_shared_heads_in_one_axis(named: bool) -> None:
    shapes = (
        {"q": "[n,s,16]", "k": "[n,t,8]", "v": "[n,t,4]"} if named else {"q": "[2,3,16]", "k": "[2,5,8]", "v": "[2,5,4]"}
    )
    text = network("Attention<q_num_heads = 4, kv_num_heads = 2>", shapes, f"{shapes['q'][:-3]}8]y")
    assert check(text, **arrays(q=(2, 3, 16), k=(2, 5, 8), v=(2, 5, 4))) == "right"


@pytest.mark.parametrize("mask", ["[3,5]", "[2,1,3,5]", "[1,5]", "[3,4]", "[2,2,1,5]"])
def test_masks_of_numbers(mask: str) -> None:
    shape = tuple(map(int, mask[1:-1].split(",")))
    text = network("Attention", {**QKV, "m": mask}, "[2,2,3,2]y")
    assert check(text, **qkv(), **arrays(1, m=shape)) == "right"


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("heads", [2, 4])
def test_all_results_with_the_past(mode: int, heads: int) -> None:
    shapes = {"q": f"[2,{heads},3,4]", "k": "[2,2,2,4]", "v": "[2,2,2,2]", "m": "[3,4]", "a": "[2,2,2,4]", "b": "[2,2,2,2]"}
    operator = f"Attention<softcap = 0.9, is_causal = 1, qk_matmul_output_mode = {mode}>"
    text = network(operator, shapes, f"[2,{heads},3,2]y [2,2,4,4]keys [2,2,4,2]values [2,{heads},3,4]scores")
    fed = {**qkv(keys=2, heads=heads), **arrays(1, m=(3, 4), a=(2, 2, 2, 4), b=(2, 2, 2, 2))}
    assert check(text, **fed) == "right"


def test_lengths_of_the_keys() -> None:
    shapes = {**QKV, "m": "", "a": "", "b": "", "n": "int64[2]"}
    for attributes in ("", "<is_causal = 1>"):
        text = network(f"Attention{attributes}", shapes, "[2,2,3,2]y")
        assert check(text, **qkv(), n=np.array([4, 2])) == "right"


@pytest.mark.parametrize("kind", ["bool", "double"])
def test_queries_that_attend_to_nothing_have_no_gradient(kind: str) -> None:
    allowed = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 0, 0, 0]], bool)
    mask = allowed if kind == "bool" else np.where(allowed, 0.5, -np.inf)
    text = f"""<ir_version: 10, opset_import: ["" : 24]>
        g (double[2,2,3,4] q, double[2,2,5,4] k, double[2,2,5,2] v, {kind}[3,5] m) => (double loss)
        {{ y = Attention(q, k, v, m) z = Mul(y, y) loss = ReduceSum<keepdims = 0>(z) }}"""
    wrt = ["q", "k", "v"] + ["m"] * (kind == "double")
    derived = differentiate(db.Network.from_proto(onnx.parser.parse_model(text)), wrt=wrt)
    found = db.frameworks["reference"]().prepare(derived)({**qkv(), "m": mask})
    gradients = {name: found[f"d(loss)/d({name})"] for name in wrt}
    assert all(np.isfinite(g).all() for g in gradients.values())
    assert not gradients["q"][:, :, 1].any()
    assert gradients["q"][:, :, 0].any()
    if kind == "double":
        assert not gradients["m"][~allowed].any()
        assert gradients["m"][allowed].all()


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(("x", "heads"), [("[2,2,3,6]", 0), ("[2,3,12]", 2), ("[n,s,12]", 2)])
def test_rotary_embedding(interleaved: int, x: str, heads: int) -> None:
    operator = f"RotaryEmbedding<interleaved = {interleaved}, num_heads = {heads}, rotary_embedding_dim = 4>"
    shape = (2, 2, 3, 6) if heads == 0 else (2, 3, 12)
    text = network(operator, {"x": x, "c": "[2,3,2]", "s": "[2,3,2]"}, f"{x}y", "float")
    assert in_float32(text, **arrays(x=shape, c=(2, 3, 2), s=(2, 3, 2))) == "right"
    text = network(operator, {"x": x, "c": "[9,2]", "s": "[9,2]", "p": "int64[2,3]"}, f"{x}y", "float")
    places = np.array([[0, 1, 1], [8, 3, 0]])
    assert in_float32(text, **arrays(x=shape, c=(9, 2), s=(9, 2)), p=places) == "right"


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("named", [False, True])
def test_linear_attention(rule: str, named: bool) -> None:
    first = "n,t" if named else "2,3"
    shapes = {"q": f"[{first},8]", "k": f"[{first},4]", "v": f"[{first},6]", "past": "[2,2,2,3]"}
    fed = arrays(q=(2, 3, 8), k=(2, 3, 4), v=(2, 3, 6), past=(2, 2, 2, 3))
    gated, delta = rule.startswith("gated"), rule.endswith("delta")
    for narrow in (False, True):
        width, shares = ("2", "1") if narrow else ("4", "2")
        shapes |= {"decay": f"[{first},{width}]" if gated else "", "beta": f"[{first},{shares}]" if delta else ""}
        fed |= arrays(1, decay=(2, 3, int(width))) if gated else {}
        fed |= arrays(2, beta=(2, 3, int(shares))) if delta else {}
        operator = f'LinearAttention<q_num_heads = 4, kv_num_heads = 2, update_rule = "{rule}">'
        assert in_float32(network(operator, shapes, f"[{first},12]y [2,2,2,3]last", "float"), **fed) == "right"


def test_linear_attention_without_a_past() -> None:
    shapes = {"q": "[2,3,4]", "k": "[2,3,4]", "v": "[2,3,6]"}
    operator = 'LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = "linear", scale = 0.3>'
    fed = arrays(q=(2, 3, 4), k=(2, 3, 4), v=(2, 3, 6))
    assert in_float32(network(operator, shapes, "[2,3,6]y", "float"), **fed) == "right"


def optimizer(text: str, **inputs: np.ndarray) -> str:
    imports = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>'
    return check(f"{imports} {text}", **inputs)


def test_optimizers() -> None:
    two = {"x": (2,), "u": (), "g": (2,), "w": ()}
    fed = {**arrays(**two), "r": np.array(0.1), "t": np.array(3), **{n: abs(a) for n, a in arrays(1, h=(2,), i=()).items()}}
    given_ = "double r, int64 t, double[2] x, double u, double[2] g, double w"
    adagrad = "ai.onnx.preview.training.Adagrad<decay_factor = 0.1, norm_coefficient = 0.2>"
    text = f"""g ({given_}, double[2] h, double i) => (double[2] a, double b, double[2] c, double d)
        {{ a, b, c, d = {adagrad}(r, t, x, u, g, w, h, i) }}"""
    assert optimizer(text, **fed) == "right"
    adam = "ai.onnx.preview.training.Adam<norm_coefficient = 0.2, norm_coefficient_post = 0.1>"
    text = f"""g (double r, int64 t, double[2] x, double[2] g, double[2] v, double[2] h)
        => (double[2] a, double[2] b, double[2] c) {{ a, b, c = {adam}(r, t, x, g, v, h) }}"""
    assert optimizer(text, **{n: fed[n] for n in "rtxgh"}, **arrays(2, v=(2,))) == "right"


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
@pytest.mark.parametrize("steps", [0, 3])
def test_momentum(mode: str, steps: int) -> None:
    settings_ = f'alpha = 0.9, beta = 0.8, norm_coefficient = 0.1, mode = "{mode}"'
    text = f"""g (double[1] r, int64[1] t, double[2] x, double[2] g, double[2] v) => (double[2] a, double[2] b)
        {{ a, b = ai.onnx.preview.training.Momentum<{settings_}>(r, t, x, g, v) }}"""
    assert optimizer(text, r=np.array([0.1]), t=np.array([steps]), **arrays(x=(2,), g=(2,), v=(2,))) == "right"


def test_adagrad_at_rest_is_finite() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
        g (double r, int64 t, double[2] x, double[2] g, double[2] h) => (double loss)
        { a, b = ai.onnx.preview.training.Adagrad<epsilon = 0.1>(r, t, x, g, h) loss = ReduceSum<keepdims = 0>(a) }"""
    derived = differentiate(db.Network.from_proto(onnx.parser.parse_model(text)), wrt=["g"])
    zero = np.zeros(2)
    found = db.frameworks["reference"]().prepare(derived)(
        {"r": np.array(0.5), "t": np.array(0), "x": zero, "g": zero, "h": zero}
    )
    np.testing.assert_allclose(found["d(loss)/d(g)"], -0.5 / 0.1)


def test_second_derivative_of_attention() -> None:
    text = """<ir_version: 10, opset_import: ["" : 24]>
        g (double[1,1,2,3] q, double[1,1,3,3] k, double[1,1,3,2] v) => (double loss)
        { y = Attention(q, k, v) z = Mul(y, y) loss = ReduceSum<keepdims = 0>(z) }"""
    proto = differentiate(db.Network.from_proto(onnx.parser.parse_model(text)), wrt=["q"]).to_proto()
    proto.graph.node.append(onnx.helper.make_node("ReduceSumSquare", ["d(loss)/d(q)"], ["square"], keepdims=0))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("square", onnx.TensorProto.DOUBLE, []))
    run = db.frameworks["reference"]().prepare(differentiate(db.Network.from_proto(proto), "square", ["k"]))
    fed = arrays(q=(1, 1, 2, 3), k=(1, 1, 3, 3), v=(1, 1, 3, 2))
    direction = np.random.default_rng(3).normal(size=(1, 1, 3, 3))
    ends = [run({**fed, "k": fed["k"] + sign * 1e-5 * direction})["square"] for sign in (1, -1)]
    slope = float((run(fed)["d(square)/d(k)"] * direction).sum())
    assert slope == pytest.approx(float(ends[0] - ends[1]) / 2e-5, rel=1e-5)


@settings(max_examples=12, deadline=None)
@given(
    batch=st.integers(0, 2),
    shared=st.integers(1, 2),
    group=st.integers(1, 3),
    queries=st.integers(1, 3),
    keys=st.integers(1, 3),
    causal=st.booleans(),
)
def test_drawn_shapes(batch: int, shared: int, group: int, queries: int, keys: int, causal: bool) -> None:
    q, k = (batch, shared * group, queries, 3), (batch, shared, keys, 3)
    shapes = {name: str(list(s)).replace(" ", "") for name, s in {"q": q, "k": k, "v": k}.items()}
    text = network(f"Attention<is_causal = {int(causal)}>", shapes, f"{shapes['q']}y")
    assert check(text, **arrays(q=q, k=k, v=k)) == "right"
