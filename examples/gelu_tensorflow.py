"""A function of TensorFlow as a kernel, eager, as a graph and compiled by XLA, with its gradients by a tape.

python examples/gelu_tensorflow.py
"""

import tensorflow as tf

import deep_bench as db


def gelu(x):
    """The same as TensorFlow's own, written out."""
    return 0.5 * x * (1 + tf.math.erf(x * 0.7071067811865476))


if __name__ == "__main__":
    case = db.Case.of("Gelu", (16, 256))
    kernels = {
        "eager": db.operators.wrap(gelu, computes="Gelu"),
        "graph": db.operators.wrap(tf.function(gelu), computes="Gelu"),
        "xla": db.operators.wrap(gelu, computes="Gelu", device="tensorflow:jit=xla"),
    }
    for name, kernel in kernels.items():
        for finding in db.operators.check_operator(kernel, case, checks=["forward", "backward"], isolate=False):
            print(f"{name}, {finding.name}: {finding.word}")
