"""What can be observed while something runs: moments, and the callbacks told of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol


class Moment(Enum):
    """A point in a run that an executor or trainer can report.

    The values are stable names, used in records.
    """

    BEFORE_CALL = "before call"
    AFTER_CALL = "after call"
    BEFORE_NODE = "before node"
    AFTER_NODE = "after node"
    BEFORE_RUN = "before run"
    BEFORE_EPOCH = "before epoch"
    BEFORE_STEP = "before step"
    AFTER_GRADIENTS = "after gradients"
    AFTER_STEP = "after step"
    AFTER_EVALUATION = "after evaluation"
    AFTER_EPOCH = "after epoch"
    AFTER_RUN = "after run"


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """The node that a moment concerns.

    Args:
        node: Its name.
        operator: Its operator, with the domain unless that is the default one.
        outputs: What it gave, native; ``None`` before it ran.
    """

    node: str
    operator: str
    outputs: tuple[Any, ...] | None = None


class Callback(Protocol):
    """Told of each moment it was registered for.

    Args:
        moment: Which moment.
        index: The running number of the call, of the node within its call, of the training step or of the epoch.
        time_ns: A ``perf_counter_ns`` stamp taken at the moment.
        data: What the moment concerns: a `NodeEvent`, the progress of a training run, or ``None`` for a call.

    Returns:
        ``True`` to ask the run to stop; anything else to go on.
    """

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> bool | None: ...
