"""Data sets: those with a name are in ``db.datasets``; here is what makes more of arrays and of other sets."""

from __future__ import annotations

from deep_bench.training.sets.arrays import ArrayDataset
from deep_bench.training.sets.description import Description, content_sha256, description_of, facts
from deep_bench.training.sets.resized import Resized
from deep_bench.training.sets.synthetic import synthetic
from deep_bench.training.sets.tokens import Tokens, byte_tokens
from deep_bench.training.sets.views import Described, Mapped, Subset, split

__all__ = [
    "ArrayDataset",
    "Described",
    "Description",
    "Mapped",
    "Resized",
    "Subset",
    "Tokens",
    "byte_tokens",
    "content_sha256",
    "description_of",
    "facts",
    "split",
    "synthetic",
]
