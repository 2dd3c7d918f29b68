"""The handwritten digits that ship with deep_bench."""

from __future__ import annotations

from deep_bench.data import Part
from deep_bench.data import digits as shipped
from deep_bench.training.sets.arrays import ArrayDataset
from deep_bench.training.sets.description import Description


def digits(part: Part = "all") -> ArrayDataset:
    """The UCI handwritten digits: ``image``, float32 of shape (1, 8, 8) in [0, 1], and ``label``, 0 to 9.

    Args:
        part: ``"train"`` (1,442 images), ``"test"`` (355) or ``"all"`` (1,797).

    Raises:
        InvalidArgument: Another part.

    Example:
        >>> len(digits("train")), digits("train")[[0, 1]]["image"].shape
        (1442, (2, 1, 8, 8))

    Source:
        Alpaydin and Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998.
    """
    images, labels = shipped(part)
    source = "Alpaydin and Kaynak (1998), UCI Machine Learning Repository, https://doi.org/10.24432/C50P49"
    return ArrayDataset({"image": images, "label": labels}, description=Description(f"digits/{part}", source, "CC BY 4.0"))
