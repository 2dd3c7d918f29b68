"""Adapters whose gradients are wrong on purpose, each in its own way; outputs are right."""

from __future__ import annotations

import os
import signal

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.network import ReferenceAdapter, ReferenceExecutor


def _one_element_off(gradient: np.ndarray) -> np.ndarray:
    changed = gradient.copy()
    changed.reshape(-1)[-1:] *= 1.002
    return changed


def _dies(_: np.ndarray) -> np.ndarray:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def _refuses(_: np.ndarray) -> np.ndarray:
    raise Unsupported("there is no gradient here")


FAULTS = {
    "test_atan": lambda g: g * 1.001,
    "test_cos": np.negative,
    "test_cosh": np.zeros_like,
    "test_exp": _one_element_off,
    "test_matmul_2d": lambda g: g[::-1],
    "test_mul": lambda g: g.reshape(-1),
    "test_sin": _dies,
    "test_sinh": _refuses,
    "test_sqrt": lambda g: g + 1e-2,
    "test_tanh": lambda g: np.full_like(g, np.nan),
}
"""Case to what becomes of its gradients."""


class WrongGradients(ReferenceAdapter):
    """Wrong in the cases that `FAULTS` names."""

    name = "wrong-gradients"

    def prepare(self, network, *, mode="inference", outputs=None):
        executor = super().prepare(network, mode=mode, outputs=outputs)
        if network.name in FAULTS:
            executor.__class__ = _Executor
            executor.fault = FAULTS[network.name]
        return executor


class _Executor(ReferenceExecutor):
    def gradients(self, inputs, loss, *, wrt=None, on_ready=None):
        outputs, gradients = super().gradients(inputs, loss, wrt=wrt, on_ready=on_ready)
        return outputs, {name: self.fault(gradient) for name, gradient in gradients.items()}


class Misnames(ReferenceAdapter):
    """Gives no gradient by the name that was asked for."""

    name = "misnames"

    def prepare(self, network, *, mode="inference", outputs=None):
        executor = super().prepare(network, mode=mode, outputs=outputs)
        executor.__class__ = _Misnaming
        return executor


class _Misnaming(ReferenceExecutor):
    def gradients(self, inputs, loss, *, wrt=None, on_ready=None):
        outputs, gradients = super().gradients(inputs, loss, wrt=wrt, on_ready=on_ready)
        return outputs, {f"{name}_": gradient for name, gradient in gradients.items()}
