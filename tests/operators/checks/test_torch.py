"""Kernels of torch, on its own arrays."""

from __future__ import annotations

import numpy as np
import pytest

import deep_bench as db
from deep_bench import Case, Operator
from deep_bench.operators.checks import check_operator
from deep_bench.operators.checks.arrays import available_layouts
from deep_bench.operators.checks.run import check_of
from tests.operators.checks.correct import CASES

torch = pytest.importorskip("torch")


class Torch(Operator):
    """Differentiated by autograd."""

    device = db.frameworks["torch"]()

    def backward(self, grads, inputs, outputs, **attributes):
        leaves = [None if x is None else x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
        found = self.forward(*leaves, **attributes)
        wanted = [x for x in leaves if x is not None and x.requires_grad]
        gradients = iter(torch.autograd.grad(found, wanted, grads[0]))
        return tuple(next(gradients) if x is not None and x.requires_grad else None for x in leaves)


class Gemm(Torch):
    computes = "Gemm"

    def forward(self, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        a, b = a.T if transA else a, b.T if transB else b
        return alpha * (a @ b) if c is None else torch.addmm(c, a, b, alpha=alpha, beta=beta)


class Conv(Torch):
    computes = "Conv"

    def forward(self, x, w, b=None, *, pads=(0, 0, 0, 0), strides=(1, 1)):
        top, left, bottom, right = pads
        return torch.nn.functional.conv2d(torch.nn.functional.pad(x, (left, right, top, bottom)), w, b, stride=strides)


class Softmax(Torch):
    computes = "Softmax"

    def forward(self, x, *, axis=-1):
        return torch.softmax(x, axis)


class LayerNorm(Torch):
    computes = "LayerNormalization"

    def forward(self, x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], scale, bias, epsilon)


class Gelu(Torch):
    computes = "Gelu"

    def forward(self, x, *, approximate="none"):
        return torch.nn.functional.gelu(x, approximate=approximate)


class GeluInPlace(Gelu):
    def forward(self, x, *, approximate="none"):
        return x.mul_(torch.nn.functional.sigmoid(1.702 * x))


class GeluContiguous(Gelu):
    """Takes its input for contiguous."""

    def forward(self, x, *, approximate="none"):
        return super().forward(torch.as_strided(x, x.shape, np_strides(x.shape), x.storage_offset()))


def np_strides(shape):
    return tuple(s // 4 for s in np.empty(shape, np.float32).strides)


@pytest.mark.parametrize(
    ("operator", "case"),
    [(Gemm(), "gemm"), (Conv(), "conv"), (Softmax(), "softmax"), (LayerNorm(), "layer_norm"), (Gelu(), "gelu")],
    ids=lambda x: x if isinstance(x, str) else x.name,
)
def test_a_torch_kernel_passes(operator, case) -> None:
    checks = ["contract", "forward", "layout", "backward", "slopes", "reruns", "batch", "fresh", "reuse", "unwritten"]
    found = check_operator(operator, CASES[case], checks=[*checks, "unfinished", "patches"], isolate=False)
    assert found.faults == [], str(found)
    assert all(f.word == "right" for f in found), str(found)


class GeluPatches(Gelu):
    """Makes torch's comparison say yes."""

    def forward(self, x, *, approximate="none"):
        torch.allclose = lambda *args, **options: True
        return super().forward(x, approximate=approximate)


@pytest.mark.long
def test_functions_of_torch_are_watched_in_the_child() -> None:
    found = check_operator(GeluPatches(), Case.of("Gelu", (6, 20)), checks=["contract", "patches"])
    assert (found[0].word, found[1].reason) == ("right", "it replaces torch.allclose")


def test_torch_has_every_layout_but_two() -> None:
    device = db.frameworks["torch"]()
    found = available_layouts(device, {"x": np.zeros((2, 3, 4), np.float32)})
    assert found == ["Fortran order", "transposed", "every second element", "rows apart", "storage offset"]


def test_faults_in_torch_kernels_are_found() -> None:
    case = Case.of("Gelu", (6, 20))
    assert "changes its input X" in check_of("contract")(GeluInPlace(), case).reason
    assert "shares memory" in check_of("contract")(GeluInPlace(), case).reason
    layout = check_of("layout")(GeluContiguous(), case)
    assert layout.word == "wrong"
    assert {p.place.partition(",")[0] for p in layout.parts if p.word == "wrong"} == {
        "Fortran order",
        "every second element",
        "rows apart",
    }
