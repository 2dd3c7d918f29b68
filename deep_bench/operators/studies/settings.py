"""What is timed of an operator on a case, and how: the quantities and the settings of a study."""

from __future__ import annotations

from pydantic import Field

from deep_bench.study.settings import Keywords, MeasurementSettings, Seconds

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


class OperatorSettings(MeasurementSettings):
    """How operators are checked and measured.

    Attributes:
        budget: Time for measuring a case; 3 s by default.
        twin: Whether one contestant is measured twice, as an A/A pair; so by default.
        limit: The longest that a single call may take; 2 min by default.
        backward: Whether gradients are timed too; not by default.
        cold: Whether calls on empty caches are timed too; not by default.
        numpy: Whether calls from and to NumPy arrays are timed too; not by default.
        isolate: Whether each case gets a fresh process; not by default.
    """

    budget: Seconds = Field(default=3.0, description="Time for measuring a case.")
    limit: Seconds = Field(default=120.0, description="The longest that a single call may take.")
    backward: bool = Field(default=False, description="Time gradients too.")
    cold: bool = Field(default=False, description="Time calls on empty caches too.")
    numpy: bool = Field(default=False, description="Time calls from and to NumPy arrays too.")
    isolate: bool = Field(default=False, description="A fresh process for each case.")


class StudySettings(Keywords, OperatorSettings):
    """Of a study of operators: how to check and measure.

    The budget of a case is that of all launches together; it is doubled where blocks are too few for intervals. ``check`` is
    ``"quick"`` (4 evaluations with rounding errors), ``"full"`` (16), ``"off"`` (no verdict), or ``"auto"``: full where one
    evaluation of the reference takes under 20 ms, else quick.

    Attributes:
        dispatch: Whether a call that computes nothing is timed too, once for each signature; so by default.
        in_process: Time everything in this process, for a debugger; the record says so.
    """

    dispatch: bool = True
    in_process: bool = Field(default=False, description="Start no processes: for a debugger.")

    @property
    def wanted(self) -> tuple[str, ...]:
        """What is timed."""
        options = {BOTH: self.backward, BACKWARD: self.backward, COLD: self.cold, NUMPY: self.numpy, DISPATCH: self.dispatch}
        return (FORWARD, *(name for name, yes in options.items() if yes))
