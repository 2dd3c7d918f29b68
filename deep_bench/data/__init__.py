"""The data that ship: handwritten digits, a play, and a network trained on them (``deep_bench.load("digits-cnn")``)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from deep_bench.errors import InvalidArgument

Part = Literal["all", "train", "test"]

_DIGITS = Path(__file__).with_name("digits.h5")


def digits(part: Part = "all") -> tuple[np.ndarray, np.ndarray]:
    """The UCI handwritten digits.

    Args:
        part: ``"train"`` (1,442 images) or ``"test"`` (355), split at random within each digit, or ``"all"`` (1,797).

    Returns:
        Images, float32 of shape (n, 1, 8, 8), in steps of 1/16 from 0 (paper) to 1 (ink), and labels, int64 of shape (n,).

    Raises:
        InvalidArgument: Another ``part``.

    Example:
        >>> images, labels = digits("test")
        >>> images.shape, str(images.dtype), labels.shape
        ((355, 1, 8, 8), 'float32', (355,))

    Source:
        Alpaydin and Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998.
    """
    import h5py

    if part not in ("all", "train", "test"):
        raise InvalidArgument(f"part {part!r} of the digits", "'all', 'train' or 'test'")
    with h5py.File(_DIGITS) as file:
        chosen = slice(None) if part == "all" else file[f"split/{part}"][:]
        images, labels = file["images"][:][chosen], file["labels"][:][chosen]
    return images[:, None].astype(np.float32) / np.float32(16), labels.astype(np.int64)
