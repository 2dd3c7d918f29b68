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

_COMMUNICATORS = "deep_bench.distributed.communicators"

_LAZY = {
    "ANY": f"{_COMMUNICATORS}.communicator",
    "Communicator": f"{_COMMUNICATORS}.communicator",
    "Counting": f"{_COMMUNICATORS}.counting",
    "LocalCommunicator": f"{_COMMUNICATORS}.local",
    "Received": f"{_COMMUNICATORS}.communicator",
    "Request": f"{_COMMUNICATORS}.communicator",
    "Volume": f"{_COMMUNICATORS}.counting",
    "end_all_on_exception": f"{_COMMUNICATORS}.guard",
    "guarded": f"{_COMMUNICATORS}.guard",
    "run_local": f"{_COMMUNICATORS}.local",
}

__all__ = [
    "ANY",
    "Communicator",
    "Counting",
    "LocalCommunicator",
    "Received",
    "Request",
    "Volume",
    "end_all_on_exception",
    "guarded",
    "run_local",
]

__getattr__, __dir__ = lazy(__name__, _LAZY)
