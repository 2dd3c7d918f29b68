"""Two kernels in NumPy: one is right, one ignores what is asked for. And how long does the right one take?

python examples/gelu_numpy.py
"""

import numpy as np
from scipy.special import erf

import deep_bench as db


class Gelu(db.Operator):
    computes = "Gelu"

    def forward(self, x):
        return x * self._phi(x)

    def backward(self, grads, inputs, outputs):  # noqa: ARG002
        (x,) = inputs
        density = np.exp(-0.5 * x * x) * x.dtype.type(1 / np.sqrt(2 * np.pi))
        return (grads[0] * (self._phi(x) + x * density),)

    def _phi(self, x):
        """The probability that a normal number is below x."""
        return x.dtype.type(0.5) * (1 + erf(x * x.dtype.type(np.sqrt(0.5))))


class Approximation(db.Operator):
    computes = "Gelu"

    def forward(self, x):
        return 0.5 * x * (1 + np.tanh(x.dtype.type(np.sqrt(2 / np.pi)) * (x + x.dtype.type(0.044715) * x * x * x)))


if __name__ == "__main__":
    case = db.Case.of("Gelu", (16, 256))
    for kernel in (Gelu(), Approximation()):
        for finding in db.operators.check_operator(kernel, case, checks=["forward", "backward"]):
            print(f"{kernel.name}, {finding.name}: {finding.word}")
    print(db.operators.study([Gelu, "reference"], case, budget=1).table())
