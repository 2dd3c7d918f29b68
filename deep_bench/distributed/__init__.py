"""Layer 3: ranks, the messages between them, and how they train together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy

if TYPE_CHECKING:
    from deep_bench.distributed.communicators.communicator import ANY as ANY
    from deep_bench.distributed.communicators.communicator import Communicator as Communicator
    from deep_bench.distributed.communicators.communicator import Received as Received
    from deep_bench.distributed.communicators.communicator import Request as Request
    from deep_bench.distributed.communicators.counting import Counting as Counting
    from deep_bench.distributed.communicators.counting import Volume as Volume
    from deep_bench.distributed.communicators.guard import end_all_on_exception as end_all_on_exception
    from deep_bench.distributed.communicators.guard import guarded as guarded
    from deep_bench.distributed.communicators.local import LocalCommunicator as LocalCommunicator
    from deep_bench.distributed.communicators.local import run_local as run_local
    from deep_bench.distributed.launch import Launch as Launch
    from deep_bench.distributed.launch import distributed_world as distributed_world
    from deep_bench.distributed.pipeline.pipeline import Pipeline as Pipeline
    from deep_bench.distributed.training.samplers import Replicated as Replicated
    from deep_bench.distributed.training.samplers import Reshuffled as Reshuffled
    from deep_bench.distributed.training.samplers import Sharded as Sharded
    from deep_bench.distributed.training.samplers import sharded_files as sharded_files
    from deep_bench.distributed.training.step import DistributedStep as DistributedStep
    from deep_bench.distributed.training.step import distributed_step_on as distributed_step_on
    from deep_bench.distributed.training.together import Together as Together
    from deep_bench.distributed.training.train import train as train

_COMMUNICATORS = "deep_bench.distributed.communicators"
_LAUNCH = "deep_bench.distributed.launch"
_TRAINING = "deep_bench.distributed.training"

_LAZY = {
    "ANY": f"{_COMMUNICATORS}.communicator",
    "Communicator": f"{_COMMUNICATORS}.communicator",
    "Counting": f"{_COMMUNICATORS}.counting",
    "DistributedStep": f"{_TRAINING}.step",
    "Launch": _LAUNCH,
    "LocalCommunicator": f"{_COMMUNICATORS}.local",
    "Pipeline": "deep_bench.distributed.pipeline.pipeline",
    "Received": f"{_COMMUNICATORS}.communicator",
    "Replicated": f"{_TRAINING}.samplers",
    "Request": f"{_COMMUNICATORS}.communicator",
    "Reshuffled": f"{_TRAINING}.samplers",
    "Sharded": f"{_TRAINING}.samplers",
    "Together": f"{_TRAINING}.together",
    "Volume": f"{_COMMUNICATORS}.counting",
    "distributed_step_on": f"{_TRAINING}.step",
    "distributed_world": _LAUNCH,
    "end_all_on_exception": f"{_COMMUNICATORS}.guard",
    "guarded": f"{_COMMUNICATORS}.guard",
    "run_local": f"{_COMMUNICATORS}.local",
    "sharded_files": f"{_TRAINING}.samplers",
    "train": f"{_TRAINING}.train",
}

__all__ = [
    "ANY",
    "Communicator",
    "Counting",
    "DistributedStep",
    "Launch",
    "LocalCommunicator",
    "Pipeline",
    "Received",
    "Replicated",
    "Request",
    "Reshuffled",
    "Sharded",
    "Together",
    "Volume",
    "distributed_step_on",
    "distributed_world",
    "end_all_on_exception",
    "guarded",
    "run_local",
    "sharded_files",
    "train",
]

__getattr__, __dir__ = lazy(__name__, _LAZY)
