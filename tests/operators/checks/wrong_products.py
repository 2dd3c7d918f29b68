"""Matrix products and convolutions that are wrong on purpose, each in its own way."""

from __future__ import annotations

import numpy as np

from tests.operators.checks.correct import Conv, Gemm, SequentialGemm


class GemmForgetsLastTerm(Gemm):
    def product(self, a, b):
        return a[:, :-1] @ b[:-1]


class GemmForgetsBeta(Gemm):
    def forward(self, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        return super().forward(a, b, None, alpha=alpha)


class GemmScalesBias(Gemm):
    def forward(self, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        return a.dtype.type(alpha) * (self.product(a, b) + c)


class GemmOneElement(Gemm):
    def product(self, a, b):
        y = a @ b
        y[-1:, -1:] *= a.dtype.type(1.001)
        return y


def _tf32(x):
    return x if x.dtype != np.float32 else (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


class GemmTf32(Gemm):
    """Cuts its factors to eleven bits, with the range of float32."""

    def product(self, a, b):
        return _tf32(a) @ _tf32(b)


class GemmFloat16(Gemm):
    """Overflows as well."""

    def product(self, a, b):
        with np.errstate(all="ignore"):
            return a.astype(np.float16).astype(a.dtype) @ b.astype(np.float16).astype(a.dtype)


class GemmIgnoresTranspose(Gemm):
    def forward(self, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        return a.reshape(a.shape[::-1]) @ b if transA else super().forward(a, b, c, alpha=alpha, beta=beta)


class GemmFixedTiles(Gemm):
    """What does not fill a tile of eight rows is left at zero."""

    def product(self, a, b):
        y = np.zeros((a.shape[0], b.shape[1]), a.dtype)
        whole = a.shape[0] // 8 * 8
        y[:whole] = a[:whole] @ b
        return y


class GemmFloat64(Gemm):
    def forward(self, *inputs, **attributes):
        return super().forward(*inputs, **attributes).astype(np.float64)


class GemmTransposedResult(Gemm):
    def forward(self, *inputs, **attributes):
        return super().forward(*inputs, **attributes).T


class GemmTakesBuffer(Gemm):
    """Reads its first input as if it were contiguous."""

    def product(self, a, b):
        flat = np.lib.stride_tricks.as_strided(a, (a.size,), (a.itemsize,)) if a.size and min(a.strides) > 0 else a.ravel()
        return flat.reshape(a.shape) @ b


class GemmEmptyFails(Gemm):
    def product(self, a, b):
        if 0 in (*a.shape, *b.shape):
            raise ValueError("nothing to multiply")
        return a @ b


class GemmWritesInput(Gemm):
    def forward(self, a, b, c=None, **attributes):
        y = super().forward(a, b, c, **attributes)
        a += 1
        return y


class GemmSkipsNan(Gemm):
    """Zeroes what is NaN."""

    def product(self, a, b):
        return np.nan_to_num(a) @ np.nan_to_num(b)


class GemmBackwardFactor(Gemm):
    def backward(self, grads, inputs, outputs, **attributes):
        da, *others = super().backward(grads, inputs, outputs, **attributes)
        return da * da.dtype.type(1.01), *others


class GemmBackwardSwapped(Gemm):
    def backward(self, grads, inputs, outputs, *, alpha=1.0, **attributes):
        a, b = inputs[:2]
        g = grads[0]  # alpha is missing
        return g @ b.T, a.T @ g, g.sum(axis=0)


class GemmBackwardNone(Gemm):
    def backward(self, grads, inputs, outputs, **attributes):
        da, db, _ = super().backward(grads, inputs, outputs, **attributes)
        return da, db, None


class GemmBackwardShape(Gemm):
    def backward(self, grads, inputs, outputs, **attributes):
        da, db, dc = super().backward(grads, inputs, outputs, **attributes)
        return da, db, dc[None]


class GemmBackwardWritesGradient(Gemm):
    def backward(self, grads, inputs, outputs, **attributes):
        found = super().backward(grads, inputs, outputs, **attributes)
        grads[0][...] = 0
        return found


class GemmBackwardCount(Gemm):
    def backward(self, grads, inputs, outputs, **attributes):
        return super().backward(grads, inputs, outputs, **attributes)[:2]


class ConvUnpadded(Conv):
    """Pads with ones instead of zeros."""

    def windows(self, x, w, pads, strides):
        top, left, bottom, right = pads
        x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=1)
        return np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, :: strides[0], :: strides[1]]


class ConvFlipped(Conv):
    def forward(self, x, w, b=None, *, pads=(0, 0, 0, 0), strides=(1, 1)):
        return super().forward(x, w[:, :, ::-1, ::-1], b, pads=pads, strides=strides)


class ConvSwappedStrides(Conv):
    def windows(self, x, w, pads, strides):
        seen = super().windows(x, w, pads, (1, 1))
        return seen[:, :, :: strides[1], :: strides[0]]


class ConvShiftedPads(Conv):
    def windows(self, x, w, pads, strides):
        return super().windows(np.roll(x, 1, axis=3), w, pads, strides)


class ConvNoBias(Conv):
    def forward(self, x, w, b=None, *, pads=(0, 0, 0, 0), strides=(1, 1)):
        return super().forward(x, w, None, pads=pads, strides=strides)


class ConvBatchMean(Conv):
    """Rows of the batch leak into each other."""

    def forward(self, x, w, b=None, *, pads=(0, 0, 0, 0), strides=(1, 1)):
        leak = x.dtype.type(1e-3) * x.mean(axis=0, keepdims=True) if x.size else x
        return super().forward(x + leak, w, b, pads=pads, strides=strides)


class GemmKeepsBuffer(SequentialGemm):
    """Returns the same memory at each call, and does not say so."""

    def __init__(self):
        self.buffers = {}

    def forward(self, *inputs, **attributes):
        found = super().forward(*inputs, **attributes)
        kept = self.buffers.setdefault(found.shape, found)
        kept[...] = found
        return kept
