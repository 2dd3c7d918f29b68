"""Sequences of words: those that are given as numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import kind_of
from deep_bench.adapters.torch.operators._site import Tensor
from deep_bench.adapters.torch.operators.control import target_of

__all__ = ["TfIdfVectorizer"]


def TfIdfVectorizer(site: Site) -> Callable[..., Tensor]:
    """How often each n-gram of the pool is in each row; its elements lie ``1 … max_skip_count + 1`` apart."""
    pool, mode = site.attribute("pool_int64s"), site.attribute("mode")
    if pool is None or kind_of(site) != "integer" or mode not in ("TF", "IDF", "TFIDF"):
        raise NotNative("torch counts n-grams of integers")
    weights = site.attribute("weights")
    columns = torch.tensor(site.attribute("ngram_indexes"), dtype=torch.int64)
    factors = torch.ones(len(columns)) if mode == "TF" or weights is None else torch.tensor(weights, dtype=torch.float32)
    # length to the n-grams of the pool of that length, one a row: those of length ``n`` lie from ``starts[n - 1]`` on
    starts = site.attribute("ngram_counts")
    ends = [*starts[1:], len(pool)]
    grams = {}
    for n, (start, end) in enumerate(zip(starts, ends, strict=True), start=1):
        grams[n] = torch.tensor(pool[start:end], dtype=torch.int64).reshape(-1, n)
    lengths = range(site.attribute("min_gram_length"), site.attribute("max_gram_length") + 1)
    return _Counter(grams, columns, factors, lengths, site.attribute("max_skip_count") + 1, mode == "IDF", target_of(site))


class _Counter(torch.nn.Module):
    def __init__(
        self,
        grams: dict[int, Tensor],
        columns: Tensor,
        factors: Tensor,
        lengths: range,
        steps: int,
        once: bool,
        device: torch.device | None,
    ) -> None:
        super().__init__()
        self.lengths, self.steps, self.once, self.sizes = lengths, steps, once, {n: len(g) for n, g in grams.items()}
        self.width = int(columns.max()) + 1
        self.register_buffer("columns", columns.to(device))
        self.register_buffer("factors", factors.to(device))
        for n, gram in grams.items():
            self.register_buffer(f"grams{n}", gram.to(device))

    def forward(self, x: Tensor) -> Any:
        rows = x.long().reshape(1 if x.dim() < 2 else x.shape[0], -1)
        counts = torch.cat([self._counts(rows, n) for n in self.sizes], 1)
        counts = counts.clamp(max=1) if self.once else counts
        y = torch.zeros((rows.shape[0], self.width), device=x.device)
        y = y.index_add(1, self.get_buffer("columns"), counts * self.get_buffer("factors"))
        return y[0] if x.dim() < 2 else y

    def _counts(self, rows: Tensor, n: int) -> Tensor:
        """How often each n-gram of length ``n`` is in each row; a skip makes no difference to a single element."""
        grams = self.get_buffer(f"grams{n}")
        total = torch.zeros((rows.shape[0], len(grams)), device=rows.device)
        if n not in self.lengths:
            return total
        for step in range(1, self.steps + 1 if n > 1 else 2):
            windows = rows.shape[1] - (n - 1) * step
            if windows > 0:
                equal = torch.ones((rows.shape[0], windows, len(grams)), dtype=torch.bool, device=rows.device)
                for k in range(n):
                    equal &= rows[:, k * step : k * step + windows, None] == grams[:, k]
                total = total + equal.sum(1)
        return total
