"""Every place where the reference differs from ``onnx.reference``, and the sentence of the specification that decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Networks on which the two differ for one reason.

    Args:
        operator: The operator that they differ on.
        version: The version of the default domain whose text is quoted.
        quote: A sentence of that text, of an attribute's, an input's or an output's.
        note: What ``onnx.reference`` does instead.
        networks: Names of the networks that show it.
    """

    operator: str
    version: int
    quote: str
    note: str
    networks: Sequence[str]


_COERCED = (
    "input will be coerced into a 2-dimensional tensor with dimensions [a_0 * ... * a_{k-1}, a_k * ... * a_{n-1}]",
    "works along the one axis, as from version 13 on",
)
_CORNERS = (
    19,
    "x_original = x_resized * (length_original - 1) / (length_resized - 1)",
    "divides by the length before it is rounded down, less 1, so that the last corner is not hit",
)
_ABSENT = "has no such operator"


def _softmax(operator: str) -> Difference:
    return Difference(operator, 11, *_COERCED, (f"{operator}-11, axis 1 of 3", f"{operator}-11, no axis"))


def _lengths(operator: str) -> Difference:
    names = [f"{operator}, {direction}, lengths" for direction in ("forward", "reverse", "bidirectional")]
    text = "Optional tensor specifying lengths of the sequences in a batch."
    return Difference(operator, 22, text, "reads every sequence to the end, padding included", names)


def _clip(operator: str) -> Difference:
    text = (
        "Clipping bounds the elements of a tensor in the range of [-threshold, +threshold] "
        "and is applied to the input of activations."
    )
    return Difference(operator, 22, text, "ignores the threshold", (f"{operator}, clip",))


DIFFERENCES: Sequence[Difference] = (
    Difference(
        "BatchNormalization",
        9,
        "Output case #2: Y (test mode)",
        "normalises with the moments of the batch, as in training (onnx issue 8442)",
        ("BatchNormalization-9", "BatchNormalization-13"),
    ),
    _softmax("Softmax"),
    _softmax("LogSoftmax"),
    _softmax("Hardmax"),
    Difference(
        "Upsample",
        9,
        "Two interpolation modes: nearest (default), and linear (including bilinear, trilinear, etc)",
        "has the first of them only",
        ("Upsample-9, linear",),
    ),
    Difference(
        "Resize",
        10,
        "output_dimension = floor(input_dimension * scale)",
        "reads the inputs in the order of version 11, and finds no scales",
        ("Resize-10",),
    ),
    Difference(
        "Scatter",
        10,
        "write the values provided by `updates` into the first input, `data`, along `axis` dimension of `data`",
        _ABSENT,
        ("Scatter-9", "test_scatter_with_axis", "test_scatter_without_axis"),
    ),
    Difference(
        "Scan",
        8,
        "If this input is not specified, all sequences are assumed to be of the maximum sequence length",
        "takes the omitted input for the first state",
        ("test_scan_sum",),
    ),
    Difference(
        "Optional",
        15,
        "a non-empty value containing the input element",
        "puts the value into a list of its own",
        ("test_if_opt",),
    ),
    Difference(
        "Range",
        27,
        "A 1-D tensor with same type as the inputs containing generated range of values.",
        "gives a column from the operator's own function body, whose loop yields scalars",
        tuple(
            f"test_range_{kind}_expanded"
            for kind in (
                "float_type_positive_delta",
                "float16_type_positive_delta",
                "bfloat16_type_positive_delta",
                "int32_type_negative_delta",
            )
        ),
    ),
    Difference(
        "ConvTranspose",
        22,
        "number of groups input channels and output channels are divided into.",
        "counts the filters of a group in output channels, and fails where there are more input channels",
        ("ConvTranspose, grouped",),
    ),
    Difference(
        "ConvTranspose",
        22,
        "output_shape can also be explicitly specified in which case pads values are auto generated",
        "fails: it takes the stated shape without the padding that follows from it",
        ("ConvTranspose, output_shape",),
    ),
    Difference(
        "MaxPool",
        22,
        "The indices are computed as flatten 1-D tensor, and the indices do not consider padding.",
        "reads the place within the window in the shape of the output, where the strides are 1",
        ("MaxPool, Indices, no strides", "MaxPool, Indices", "MaxPool, Indices, column order"),
    ),
    Difference(
        "MaxPool",
        22,
        "SAME_UPPER or SAME_LOWER: output_spatial_shape[i] = ceil(input_spatial_shape[i] / strides_spatial_shape[i])",
        "rounds down for SAME_LOWER",
        ("MaxPool, SAME_LOWER",),
    ),
    Difference(
        "MaxPool",
        22,
        "it can take any value greater than or equal to 0",
        "fails: with these pads it finds windows without an element",
        ("MaxPool, uneven pads",),
    ),
    Difference(
        "GlobalMaxPool",
        22,
        "The output tensor has the same rank as the input.",
        "reduces axes 1 and 2 of a tensor of rank 3, and gives rank 2",
        ("GlobalMaxPool, one axis",),
    ),
    Difference(
        "GlobalLpPool",
        22,
        "applies lp pool pooling across the values in the same channel",
        _ABSENT,
        ("GlobalLpPool, one axis", "GlobalLpPool, two axes"),
    ),
    Difference(
        "MaxRoiPool",
        22,
        "to produce output 4-D tensor of shape (num_rois, channels, pooled_shape[0], pooled_shape[1])",
        _ABSENT,
        ("MaxRoiPool",),
    ),
    Difference(
        "GatherElements",
        13,
        "Its output shape is the same as the shape of `indices`",
        "fails unless the indices are as large as the data along the other axes",
        ("GatherElements, fewer indices",),
    ),
    Difference(
        "OneHot",
        11,
        "Scalar or Rank 1 tensor containing exactly one element, specifying the number of classes in one-hot tensor.",
        "fails where the depth has rank 1",
        ("OneHot, negative indices",),
    ),
    Difference(
        "Pad",
        24,
        "the number of padding elements to add or remove (if negative) at the beginning and end of each axis",
        "fails where elements are to be removed",
        ("Pad, negative",),
    ),
    Difference(
        "LpNormalization",
        22,
        "output = input / Lp_norm(input, axis)",
        "adds the elements for p = 1, not their absolute values",
        ("LpNormalization, p 1, zeros",),
    ),
    Difference(
        "LRN",
        13,
        "max(0, c - floor((size - 1) / 2)) <= i <= min(C - 1, c + ceil((size - 1) / 2))",
        "runs over the images where it should run over the channels, so that most of them are divided by 1",
        ("LRN, fewer images than channels",),
    ),
    *(_lengths(operator) for operator in ("RNN", "GRU", "LSTM")),
    *(_clip(operator) for operator in ("RNN", "GRU", "LSTM")),
    Difference("LSTM", 22, "Couple the input and forget gates if 1.", "leaves them apart", ("LSTM, coupled gates",)),
    Difference(
        "LSTM",
        22,
        "activation functions for input, output, forget, cell, and hidden",
        "takes the default ones whatever is stated",
        ("LSTM, other activations",),
    ),
    Difference(
        "Resize",
        *_CORNERS,
        (
            *(f"Resize, {mode}, align_corners, down" for mode in ("nearest", "linear", "cubic")),
            # on these the standard's own expected outputs are at fault, see deep_bench.testing.case
            "test_resize_downsample_scales_linear_align_corners",
            "test_resize_downsample_scales_cubic_align_corners",
        ),
    ),
    Difference(
        "GridSample",
        20,
        "border: use border values for out-of-bound grid locations",
        "moves the sampling point itself to the border; the reference, PyTorch (which the text refers to) and ONNX Runtime "
        "move each of the locations that the cubic kernel reads",
        ("GridSample, cubic, border, align_corners 1",),
    ),
)
"""All of them; what is not here must be equal, and what is here must differ."""


def expected() -> Iterator[str]:
    """The names of all networks that must show a difference."""
    for difference in DIFFERENCES:
        yield from difference.networks


def markdown() -> str:
    """The table as a page shows it."""
    lines = ["| operator, version | the specification's text | `onnx.reference` | shown by |", "|---|---|---|---|"]
    for d in DIFFERENCES:
        quote = d.quote.replace("|", "\\|").replace("*", "\\*")
        lines.append(f"| {d.operator}-{d.version} | {quote} | {d.note} | {'; '.join(d.networks)} |")
    return "\n".join(lines)
