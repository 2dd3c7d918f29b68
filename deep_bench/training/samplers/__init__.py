"""Which samples come in which order: all are `deep_bench.training.sampler.Sampler`, pure in (seed, epoch).

Those that promise each sample once keep it in every epoch; none needs more memory than some numbers for each sample.
"""

from __future__ import annotations

from deep_bench.training.samplers.grouped import Bucketed, Stratified
from deep_bench.training.samplers.infinite import Infinite
from deep_bench.training.samplers.orders import Sequential, Shuffled
from deep_bench.training.samplers.replacement import Weighted, WithReplacement

__all__ = ["Bucketed", "Infinite", "Sequential", "Shuffled", "Stratified", "Weighted", "WithReplacement"]
