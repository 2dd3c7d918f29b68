"""The faults of the ``onnx`` package 1.23 that are known here: its shape inference, its function bodies, and its own
reference evaluator."""

from __future__ import annotations

from deep_bench.fault import KnownFault

FAULTS = (
    KnownFault(
        "attention_shape",
        ("Attention",),
        "wrong values",
        "An open dimension of the inputs is open in the output; shape inference says 0 for the hidden size.",
        avoided=True,
    ),
    KnownFault(
        "batch_normalization_9",
        ("BatchNormalization",),
        "wrong values",
        "Below opset 14 a node with one output does inference; onnx.reference normalises by the batch's own statistics.",
        avoided=True,
    ),
    KnownFault(
        "bernoulli_inverted",
        ("Bernoulli",),
        "wrong values",
        "The output is 1 with probability p; the function body gives 1 where a uniform number is greater than p, which it "
        "is with probability 1 - p.",
        avoided=True,
    ),
    KnownFault(
        "cast_like_round_mode",
        ("CastLike",),
        "wrong values",
        "CastLike has the attributes of Cast; its function body does not hand on round_mode.",
        avoided=True,
    ),
    KnownFault(
        "conv_transpose_same_shape",
        ("ConvTranspose",),
        "wrong values",
        "Under auto_pad SAME_UPPER and SAME_LOWER the output is as long as the input times the stride; where the kernel "
        "is shorter than the stride, shape inference says less.",
        avoided=True,
    ),
    KnownFault(
        "gather_elements_smaller",
        ("GatherElements",),
        "fails",
        "The indices may be shorter than the data along the axes that are not gathered from; onnx.reference refuses that.",
        avoided=True,
    ),
    KnownFault(
        "global_max_pool_3d",
        ("GlobalMaxPool",),
        "wrong values",
        "The output keeps batch and channels; for inputs of rank 3 onnx.reference reduces the channels too.",
        avoided=True,
    ),
    KnownFault(
        "gru_activations",
        ("GRU",),
        "wrong values",
        "A node may state its activations; onnx.reference uses Sigmoid and Tanh whatever it states.",
        avoided=True,
    ),
    KnownFault(
        "gru_clip",
        ("GRU",),
        "wrong values",
        "clip bounds the input of every activation; onnx.reference ignores it.",
        avoided=True,
    ),
    KnownFault(
        "softmax_11",
        ("Softmax",),
        "wrong values",
        "Below opset 13 Softmax runs over all axes from the given one on; onnx.reference runs over that axis alone.",
        avoided=True,
    ),
    KnownFault(
        "stft_shape",
        ("STFT",),
        "wrong values",
        "A one-sided transform, which is the default, has half of the bins and one; shape inference counts those of a "
        "two-sided one.",
        avoided=True,
    ),
)
"""In alphabetical order; neither the adapters nor the verdicts depend on them."""
