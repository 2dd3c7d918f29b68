"""To stop when the time is over."""

from __future__ import annotations

from deep_bench.errors import InvalidArgument
from deep_bench.events import Moment
from deep_bench.training.progress import Progress


class TimeLimit:
    """Stops a run after the step that ends beyond a time, counted from the first touch of the data.

    The time of a run before it was resumed counts.

    Args:
        seconds: The time.

    Raises:
        InvalidArgument: It is not above 0.
    """

    moments = (Moment.BEFORE_RUN, Moment.AFTER_STEP)

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise InvalidArgument(f"a limit of {seconds} seconds", "a number above 0")
        self.seconds = seconds

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Look at the clock."""
        if data.history.wall_ns >= self.seconds * 1e9:
            data.stop(f"the time limit of {self.seconds:g} s is over")
