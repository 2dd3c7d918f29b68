"""What can be observed while something runs: moments, and the callbacks told of them."""

from __future__ import annotations

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


class Callback(Protocol):
    """Told of each moment it was registered for.

    Args:
        moment: Which moment.
        index: The running number of the call or node.
        time_ns: A ``perf_counter_ns`` stamp taken at the moment.
        data: What the moment concerns (a node, its outputs), or ``None``.

    Returns:
        ``True`` to ask the run to stop; anything else to go on.
    """

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> bool | None: ...
