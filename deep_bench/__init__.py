"""deep_bench times and checks any piece of deep learning against slow references that a person can read.

Importing this package loads no framework; names below are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy
from deep_bench.registry import (
    communicators as communicators,
)
from deep_bench.registry import (
    datasets as datasets,
)
from deep_bench.registry import (
    distributed_optimizers as distributed_optimizers,
)
from deep_bench.registry import (
    frameworks as frameworks,
)
from deep_bench.registry import (
    networks as networks,
)
from deep_bench.registry import (
    optimizers as optimizers,
)
from deep_bench.registry import (
    samplers as samplers,
)
from deep_bench.registry import (
    suites as suites,
)

if TYPE_CHECKING:
    from deep_bench import distributed as distributed
    from deep_bench import network as network
    from deep_bench import operators as operators
    from deep_bench import results as results
    from deep_bench import training as training
    from deep_bench.graph import Network as Network
    from deep_bench.graph import load as load
    from deep_bench.network.result import Result as Result
    from deep_bench.network.run import run as run
    from deep_bench.operators.case import Case as Case
    from deep_bench.operators.operator import Operator as Operator
    from deep_bench.tensor import TensorSpec as TensorSpec
    from deep_bench.training.timeline.live import timeline as timeline
    from deep_bench.training.trainer import Trainer as Trainer

__version__ = "0.1.0"

_LAZY = {
    "Case": "deep_bench.operators.case",
    "Network": "deep_bench.graph",
    "Operator": "deep_bench.operators.operator",
    "Result": "deep_bench.network.result",
    "TensorSpec": "deep_bench.tensor",
    "Trainer": "deep_bench.training.trainer",
    "load": "deep_bench.graph",
    "run": "deep_bench.network.run",
    "timeline": "deep_bench.training.timeline.live",
}

__all__ = [
    "Case",
    "Network",
    "Operator",
    "Result",
    "TensorSpec",
    "Trainer",
    "__version__",
    "communicators",
    "datasets",
    "distributed_optimizers",
    "frameworks",
    "load",
    "run",
    "samplers",
    "suites",
    "timeline",
]


_LAYERS = ("distributed", "network", "operators", "results", "training")

__getattr__, __dir__ = lazy(__name__, _LAZY, _LAYERS)
