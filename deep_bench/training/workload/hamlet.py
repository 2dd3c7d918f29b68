"""The play that ships with deep_bench."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

import deep_bench.data
from deep_bench.errors import InvalidArgument
from deep_bench.training.dataset import Dataset
from deep_bench.training.sets import Description, Subset, Tokens

_PARTS = ("all", "train", "test")
_TRAIN = 0.9
"""The share of the play that is to be trained on."""

ASCII = 128
"""The number of different bytes that the play may have."""


def hamlet(part: Literal["all", "train", "test"] = "all", context: int = 64, stride: int | None = None) -> Dataset:
    """*Hamlet*, byte by byte: ``input``, int64 of shape (context,), below 128, and ``target``, the bytes from one later on.

    Args:
        part: ``"train"``: of the first nine tenths of the play; ``"test"``: of the last; or ``"all"``.
        context: Bytes in a sample.
        stride: From one sample to the next; by default ``context``. The test samples never overlap.

    Raises:
        InvalidArgument: Another part, or numbers below 1.

    Example:
        >>> bytes(hamlet(context=25)[[0]]["input"][0].tolist())
        b'HAMLET, PRINCE OF DENMARK'

    Source:
        William Shakespeare, *Hamlet*, in the public domain; the text of Project Gutenberg, etext98/2ws2610.txt, without what
        is theirs.
    """
    if part not in _PARTS:
        raise InvalidArgument(f"part {part!r} of Hamlet", f"one of {', '.join(_PARTS)}")
    path = Path(deep_bench.data.__file__).with_name("hamlet.txt")
    described = Description("hamlet", "William Shakespeare; Project Gutenberg, etext98/2ws2610.txt", "public domain")
    overlapping = context if stride is None or part == "test" else stride
    play = Tokens(path, context, stride=overlapping, dtype="uint8", vocabulary=ASCII, description=described)
    starts = np.arange(len(play)) * overlapping
    cut = int(_TRAIN * path.stat().st_size)
    chosen = {"all": starts >= 0, "train": starts + context < cut, "test": starts >= cut}[part]
    return Subset(play, np.flatnonzero(chosen), part)
