"""A transformation of one's own, and the check that it changes nothing: a convolution of 1x1 is a matrix product.

python examples/own_transformation.py
"""

import numpy as np

import deep_bench as db
from deep_bench.network import transform


def conv_as_matmul(network):
    def build(tape, found):
        weight = found.contents("w")
        if weight.shape[2:] != (1, 1) or found.attributes().get("group", 1) != 1:
            return None  # leave this one as it is
        pixels = found["x"].transpose([0, 2, 3, 1])
        matrix = tape.constant(weight[:, :, 0, 0].T, weight.dtype)
        return (pixels @ matrix + found["b"]).transpose([0, 3, 1, 2])

    return transform.replace(network, "Conv(x, w, b)", build)


network = db.load("digits-cnn")
images = {"image": np.random.default_rng(0).random((4, 1, 8, 8), np.float32)}
changed = conv_as_matmul(network)
verdict = transform.check(network, changed, images)
print(f"{len(network.nodes)} nodes became {len(changed.nodes)}: {verdict.word}, {verdict.reason}")
