"""The texts that attributes of ONNX's operators may be; its schemas name them in prose only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deep_bench.errors import UnknownName

_PADDED = "AveragePool Conv ConvInteger ConvTranspose LpPool MaxPool QLinearConv"

_CHOICES: Mapping[tuple[str, str], str] = {
    **dict.fromkeys([(name, "auto_pad") for name in _PADDED.split()], "NOTSET SAME_LOWER SAME_UPPER VALID"),
    **dict.fromkeys([(name, "direction") for name in ("GRU", "LSTM", "RNN")], "bidirectional forward reverse"),
    **dict.fromkeys([(name, "mode") for name in ("DepthToSpace", "SpaceToDepth")], "CRD DCR"),
    **dict.fromkeys([(f"Scatter{name}", "reduction") for name in ("Elements", "ND")], "add max min mul none"),
    **dict.fromkeys([(f"{n}Loss", "reduction") for n in ("NegativeLogLikelihood", "SoftmaxCrossEntropy")], "mean none sum"),
    ("BitShift", "direction"): "LEFT RIGHT",
    ("Gelu", "approximate"): "none tanh",
    ("GridSample", "mode"): "cubic linear nearest",
    ("GridSample", "padding_mode"): "border reflection zeros",
    ("Pad", "mode"): "constant edge reflect wrap",
    ("Resize", "coordinate_transformation_mode"): (
        "align_corners asymmetric half_pixel half_pixel_symmetric pytorch_half_pixel tf_crop_and_resize"
    ),
    ("Resize", "keep_aspect_ratio_policy"): "not_larger not_smaller stretch",
    ("Resize", "mode"): "cubic linear nearest",
    ("Resize", "nearest_mode"): "ceil floor round_prefer_ceil round_prefer_floor",
    ("RoiAlign", "coordinate_transformation_mode"): "half_pixel output_half_pixel",
    ("RoiAlign", "mode"): "avg max",
    ("StringNormalizer", "case_change_action"): "LOWER NONE UPPER",
    ("TfIdfVectorizer", "mode"): "IDF TF TFIDF",
}


def check_choice(operator: str, attribute: str, value: Any) -> None:
    """Refuse a text that an attribute cannot be.

    Args:
        operator: An operator of ONNX's own domain.
        attribute: The attribute.
        value: What it is to be; what is no text is left to others.

    Raises:
        UnknownName: It names the texts that it can be.

    Example:
        >>> check_choice("Gelu", "approximate", "tanh")
    """
    choices = _CHOICES.get((operator, attribute), "").split()
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    if choices and isinstance(text, str) and text not in choices:
        raise UnknownName(f"{attribute} of {operator}", text, choices)
