"""A kernel in Triton, forward and backward. It needs an NVIDIA GPU.

python examples/gelu_triton.py
"""

import torch
import triton
import triton.language as tl

import deep_bench as db

BLOCK = 1024


@triton.jit
def gelu_kernel(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n)
    tl.store(y + i, 0.5 * value * (1 + tl.erf(value * 0.7071067811865476)), mask=i < n)


@triton.jit
def gelu_backward_kernel(dy, x, dx, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n)
    slope = 0.5 * (1 + tl.erf(value * 0.7071067811865476)) + value * 0.3989422804014327 * tl.exp(-0.5 * value * value)
    tl.store(dx + i, tl.load(dy + i, mask=i < n) * slope, mask=i < n)


def gelu(x):
    x, y = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
    if x.numel():
        gelu_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), block=BLOCK)
    return y


def gelu_backward(grads, inputs, outputs):  # noqa: ARG001
    (dy,), (x,) = grads, inputs
    dy, x = dy.contiguous(), x.contiguous()
    dx = torch.empty_like(x)
    if x.numel():
        gelu_backward_kernel[(triton.cdiv(x.numel(), BLOCK),)](dy, x, dx, x.numel(), block=BLOCK)
    return (dx,)


if __name__ == "__main__":
    kernel = db.operators.wrap(gelu, computes="Gelu", backward=gelu_backward)
    for finding in db.operators.check_operator(kernel, db.Case.of("Gelu", (64, 768)), checks=["forward", "backward"]):
        print(f"{finding.name}: {finding.word}")
