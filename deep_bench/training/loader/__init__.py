"""Batches read in the order of a sampler, in the calling thread, in other threads or in other processes."""

from __future__ import annotations

from deep_bench.training.loader.loader import Loader

__all__ = ["Loader"]
