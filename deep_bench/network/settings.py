"""What a run of a network may be told."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from deep_bench.measure.settings import Checking, refuse_bad


@dataclass(frozen=True)
class Settings:
    """How to check and measure.

    Args:
        seed: Of drawn inputs, of the random order and of the estimates.
        ci_width: Stop when half the 95 % interval of each median is at most this share of it …
        budget: … or after so many seconds of measuring.
        check: ``"quick"`` (node replay and 4 noisy evaluations), ``"full"`` (16), ``"off"`` (no verdict), or ``"auto"``:
            full where one evaluation of the reference takes under a second, else quick.
        launches: How many times to start every system afresh; the budget is divided among them.
        twin: Whether one system is measured twice, as an A/A pair.
        in_process: Time everything in this process, for a debugger; the record says so.
    """

    seed: int = 0
    ci_width: float = 0.01
    budget: float = 20.0
    check: Checking = "auto"
    launches: int = 1
    twin: bool = True
    in_process: bool = False

    def __post_init__(self) -> None:
        refuse_bad(self, counts=("launches",))

    def as_options(self) -> dict[str, str | int | float | bool]:
        """The settings as a record keeps them."""
        return asdict(self)
