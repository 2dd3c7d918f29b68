"""A lean adapter for the tests: it computes y = 2 x, needs NumPy only, and tells what is loaded beside it."""

import sys

import numpy as np


class Doubling:
    def __init__(self, factor="2"):
        self.factor = float(factor)

    def describe(self):
        roots = {name.partition(".")[0] for name in sys.modules}
        loaded = " ".join(sorted(roots - set(getattr(sys, "stdlib_module_names", ()))))
        return {"version": "1", "device": "cpu", "threads": "1", "precision": "float32", "loaded": loaded}

    def prepare(self, model):
        if model == b"bad":
            raise ValueError("a network that it cannot read")
        return Prepared(self.factor)

    def synchronize(self):
        pass


class Prepared:
    nodes = ("double",)

    def __init__(self, factor):
        self.factor = factor

    def bind(self, inputs):
        x = np.array(next(iter(inputs.values())))  # replayed nodes have inputs of other names
        return lambda: x * np.float32(self.factor)

    def from_numpy(self, inputs):
        return lambda: self.to_numpy(self.bind(inputs)())

    def to_numpy(self, outputs):
        return {"y": outputs}
