"""What is timed of an operator on a case, and how: the quantities and the settings of a study."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.study.settings import Checking, refuse_bad

FORWARD = "forward"
"""The operator on its own arrays."""


BOTH = "forward and backward"
"""The operator, and the gradients of its inputs for given gradients of its outputs. Frameworks differentiate the sum of the
outputs' elements weighted by these, which is part of it."""


BACKWARD = "backward"
"""The gradients alone, where an operator computes them apart."""


COLD = "forward, cold caches"
"""As `FORWARD`, after the last-level cache was emptied."""


NUMPY = "from NumPy"
"""From NumPy arrays to NumPy arrays, checks of the inputs included."""


DISPATCH = "empty call"
"""A call of the same signature that computes nothing: what calling costs before anything is computed."""


QUANTITIES = (FORWARD, BOTH, BACKWARD, COLD, NUMPY, DISPATCH)

VERDICT = "verdict"
"""Not timed; among what is unavailable where there is no reference."""


@dataclass(frozen=True)
class StudySettings:
    """How to check and measure.

    Args:
        seed: Of the inputs, of the random order and of the estimates.
        ci_width: Go on to the next case when half the 95 % interval of each median is at most this share of it …
        budget: … or after so many seconds of measuring the case, in all launches together; twice that where blocks are too
            few for intervals.
        check: ``"quick"`` (4 evaluations with rounding errors), ``"full"`` (16), ``"off"`` (no verdict), or ``"auto"``: full
            where one evaluation of the reference takes under 20 ms, else quick.
        launches: How many times to start every contestant afresh; the budget is divided among them.
        twin: Whether the base is measured twice, as an A/A pair.
        limit: The most seconds that anything asked of a contestant may take: setting up, a first call, a block of samples.
        backward: Whether gradients are timed too.
        numpy: Whether calls from and to NumPy arrays are timed too.
        cold: Whether calls on empty caches are timed too.
        dispatch: Whether a call that computes nothing is timed too, once for each signature.
        isolate: Whether each case gets a fresh process, so that none can leave anything behind for the next.
        in_process: Time everything in this process, for a debugger; the record says so.

    Raises:
        InvalidArgument: A number out of range.
    """

    seed: int = 0
    ci_width: float = 0.01
    budget: float = 3.0
    check: Checking = "auto"
    launches: int = 1
    twin: bool = True
    limit: float = 120.0
    backward: bool = False
    numpy: bool = False
    cold: bool = False
    dispatch: bool = True
    isolate: bool = False
    in_process: bool = False

    def __post_init__(self) -> None:
        refuse_bad(self, seconds=("budget", "limit"), counts=("launches",))

    @property
    def wanted(self) -> tuple[str, ...]:
        """What is timed."""
        options = {BOTH: self.backward, BACKWARD: self.backward, COLD: self.cold, NUMPY: self.numpy, DISPATCH: self.dispatch}
        return (FORWARD, *(name for name, yes in options.items() if yes))
