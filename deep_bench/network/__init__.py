"""Layer 1: a whole ONNX network.

What is imported on first use only is listed in a table, so that importing this package stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy
from deep_bench.network.gradient import differentiate, gradient_name
from deep_bench.network.tracing import fed
from deep_bench.network.training_step import TrainingStep, traced_update, training_step

if TYPE_CHECKING:
    from deep_bench.network import transform as transform
    from deep_bench.network.comparison import NetworkComparison as NetworkComparison
    from deep_bench.network.comparison import compare as compare
    from deep_bench.network.divergence import Divergence as Divergence
    from deep_bench.network.divergence import diverge as diverge
    from deep_bench.network.profiling.algorithms import chosen_algorithms as chosen_algorithms
    from deep_bench.network.profiling.model import Profile as Profile
    from deep_bench.network.profiling.profile import profile as profile
    from deep_bench.network.reduction import Crashes as Crashes
    from deep_bench.network.reduction import Reduced as Reduced
    from deep_bench.network.reduction import Slower as Slower
    from deep_bench.network.reduction import Wrong as Wrong
    from deep_bench.network.reduction import reduce as reduce

_LAZY = {
    "Crashes": "deep_bench.network.reduction",
    "Divergence": "deep_bench.network.divergence",
    "NetworkComparison": "deep_bench.network.comparison",
    "Profile": "deep_bench.network.profiling.model",
    "Reduced": "deep_bench.network.reduction",
    "Slower": "deep_bench.network.reduction",
    "Wrong": "deep_bench.network.reduction",
    "chosen_algorithms": "deep_bench.network.profiling.algorithms",
    "compare": "deep_bench.network.comparison",
    "diverge": "deep_bench.network.divergence",
    "profile": "deep_bench.network.profiling.profile",
    "reduce": "deep_bench.network.reduction",
}

__all__ = [
    "Crashes",
    "Divergence",
    "NetworkComparison",
    "Profile",
    "Reduced",
    "Slower",
    "TrainingStep",
    "Wrong",
    "chosen_algorithms",
    "compare",
    "differentiate",
    "diverge",
    "fed",
    "gradient_name",
    "profile",
    "reduce",
    "traced_update",
    "training_step",
    "transform",
]

__getattr__, __dir__ = lazy(__name__, _LAZY, ("transform",))
