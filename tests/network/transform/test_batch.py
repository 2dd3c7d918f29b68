"""Other batch sizes."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.network.transform import batch, check, through_batch
from tests.network.transform.texts import digits, network, normal

RESHAPES = """f (float[{b},4,6] x) => (float[{b},24] y) {{
    a = Reshape(x, heads)  p = Relu(a)  c = Reshape(p, whole)  d = Reshape(c, merged)  y = Reshape(d, flat) }}"""


def reshapes(size: int) -> dict[str, np.ndarray]:
    shapes = {"heads": [size, 2, 2, 6], "whole": [size, 4, 6], "merged": [size * 4, 6], "flat": [size, -1]}
    return {name: np.array(shape) for name, shape in shapes.items()}


def test_open_batches_are_fixed() -> None:
    net = digits(1)[0]
    opened = net.copy()
    opened.graph.inputs[0].shape = opened.graph.inputs[0].shape.__class__(["N", 1, 8, 8])
    assert batch(type(net)(opened.model), 5).inputs[0].shape == (5, 1, 8, 8)


@pytest.mark.parametrize("old", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 5, 7])
def test_shapes_of_reshape(old: int, size: int) -> None:
    net = network(RESHAPES.format(b=old), **reshapes(old))
    after = batch(net, size)
    assert (after.inputs[0].shape, after.outputs[0].shape) == ((size, 4, 6), (size, 24))
    x = {"x": normal(old, 4, 6)}
    assert check(net, after, x, through=through_batch(net, size)).identical


def test_shapes_that_stay() -> None:
    net = network(
        "f (float[2,6] x) => (float[2,3,2] y, float[2,6] z) { y = Reshape(x, s)  z = Reshape(x, t) }",
        s=np.array([-1, 3, 2]),
        t=np.array([0, 6]),
    )
    after = batch(net, 4)
    assert {n: a.tolist() for n, a in after.initializers.items()} == {"s": [-1, 3, 2], "t": [0, 6]}


def test_expand_and_the_state_of_an_lstm() -> None:
    text = """f (float[3,2,4] x) => (float y, float h) {
        e = Expand(x, s)  o, h, c = LSTM<hidden_size = 5>(e, w, r, , , h0, c0)  y = Transpose<perm = [2, 0, 1, 3]>(o) }"""
    zeros = np.zeros((1, 2, 5), np.float32)
    net = network(text, s=np.array([3, 2, 4]), w=normal(1, 20, 4), r=normal(1, 20, 5), h0=zeros + 1, c0=zeros)
    after = batch(net, 3, axes={"x": 1})
    assert after.inputs[0].shape == (3, 3, 4)
    assert {a.shape for n, a in after.initializers.items() if n.startswith(("h0", "c0"))} == {(1, 3, 5)}


def test_states_that_differ_are_refused() -> None:
    text = "f (float[3,2,4] x) => (float y) { y = RNN<hidden_size = 5>(x, w, r, , , h0) }"
    net = network(text, w=normal(1, 5, 4), r=normal(1, 5, 5), h0=normal(1, 2, 5))
    with pytest.raises(Unsupported, match="other sizes than the batch"):
        batch(net, 3, axes={"x": 1})


def test_several_inputs_with_their_axes() -> None:
    net = network("f (float[2,3] x, float[5,2,3] s) => (float[5,2,3] y) { y = Add(x, s) }")
    with pytest.raises(InvalidArgument, match=r"no one batch axis \(x: 2, s: 5\)"):
        batch(net, 4)
    after = batch(net, 4, axes={"x": 0, "s": 1})
    assert [s.shape for s in after.inputs] == [(4, 3), (5, 4, 3)]


def test_what_mixes_samples_is_refused() -> None:
    total = network("f (float[2,3] x) => (float[3] y) { y = ReduceSum<keepdims = 0>(x, a) }", a=np.array([0]))
    with pytest.raises(Unsupported, match="one axis that grows with the batch"):
        batch(total, 4)
    centred = network("f (float[2,3] x) => (float[2,3] y) { m = ReduceMean(x, a)  y = Sub(x, m) }", a=np.array([0]))
    with pytest.raises(Unsupported, match="computes something else"):
        batch(centred, 4)
    assert batch(centred, 4, verify=False).inputs[0].shape == (4, 3)


def test_a_size_that_is_built_in() -> None:
    net = network("f (float[2,3] x) => (float[2,3] y) { y = Add(x, c) }", c=normal(2, 3))
    with pytest.raises(Unsupported, match="does not run with a batch of 5"):
        batch(net, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "a batch of 0"),
        ({"size": 2, "axes": {"z": 0}}, "input 'z'"),
        ({"size": 2, "axes": {"image": 4}}, "axis 4"),
    ],
)
def test_bad_requests(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        batch(digits()[0], **arguments)
