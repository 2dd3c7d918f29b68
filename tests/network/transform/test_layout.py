"""Channels last and first."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.network.transform import check, layout, through_layout
from tests.network.transform.texts import digits, network, normal, run

IMAGES = "f (float[2,3,5,7] x, float[2,3] v) => (float[2,4,5,7] y, float[2,4,5,7] z) { y = Conv(x, w)  z = Relu(y) }"


@pytest.mark.parametrize("to", ["NHWC", "NCHW"])
def test_all_of_rank_4(to: str) -> None:
    net = network(IMAGES, w=normal(4, 3, 1, 1))
    after = layout(net, to)
    assert after.inputs[0].shape == ((2, 5, 7, 3) if to == "NHWC" else (2, 7, 3, 5))
    assert after.inputs[1] == net.inputs[1]
    assert after.outputs[0].shape == ((2, 5, 7, 4) if to == "NHWC" else (2, 7, 4, 5))
    inputs = {"x": normal(2, 3, 5, 7), "v": normal(2, 3)}
    assert check(net, after, inputs, through=through_layout(net, to)).identical


def test_some_by_name_and_other_ranks() -> None:
    net = network("f (float[2,3,9] x, float[2,3,4,5,6] u) => (float[2,3,9] y, float z) { y = Relu(x)  z = Neg(u) }")
    after = layout(net, "NHWC", inputs=["u"], outputs=["y"])
    assert [s.shape for s in after.inputs] == [(2, 3, 9), (2, 4, 5, 6, 3)]
    x = {"x": normal(2, 3, 9), "u": normal(2, 3, 4, 5, 6)}
    assert check(net, after, x, through=through_layout(net, "NHWC", inputs=["u"], outputs=["y"])).identical
    found = run(after, {"x": x["x"], "u": np.moveaxis(x["u"], 1, -1)})
    assert np.array_equal(found["y"], np.moveaxis(np.maximum(x["x"], 0), 1, -1))
    assert np.array_equal(found["z"], -x["u"])


def test_there_and_back() -> None:
    net, image = digits()
    assert check(net, layout(layout(net, "NHWC"), "NCHW"), image).identical


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"to": "NCWH"}, "the layout 'NCWH'"),
        ({"inputs": ["picture"]}, "no input 'picture'"),
        ({"outputs": ["logits"]}, "the output logits"),
    ],
)
def test_bad_requests(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        layout(digits()[0], **arguments)


def test_nothing_to_permute() -> None:
    with pytest.raises(InvalidArgument, match="no input or output of rank 4"):
        layout(network("f (float[2,3] x) => (float[2,3] y) { y = Relu(x) }"))
