"""Data sets. Those with a name are in ``db.datasets``; `ArrayDataset`, `Subset`, `Mapped` and `split` make more."""

from __future__ import annotations

from deep_bench.training.sets.arrays import ArrayDataset
from deep_bench.training.sets.description import Description, content_sha256, description_of, facts
from deep_bench.training.sets.views import Mapped, Subset, split

__all__ = ["ArrayDataset", "Description", "Mapped", "Subset", "content_sha256", "description_of", "facts", "split"]
