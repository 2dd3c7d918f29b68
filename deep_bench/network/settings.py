"""What a run of a network may be told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, get_args

from deep_bench.errors import InvalidArgument

Checking = Literal["auto", "quick", "full", "off"]


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
        if self.check not in get_args(Checking):
            raise InvalidArgument(f"check={self.check!r}", f"one of {', '.join(get_args(Checking))}")
        for name, kind in (("ci_width", float), ("budget", float), ("launches", int), ("seed", int)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, kind | int):
                raise InvalidArgument(f"{name}={value!r}", f"a number of type {kind.__name__}")
        if not 0 < self.ci_width < 1:
            raise InvalidArgument(f"ci_width={self.ci_width}", "a share above 0 and below 1, such as 0.01")
        if not 0 < self.budget < float("inf"):
            raise InvalidArgument(f"budget={self.budget}", "seconds, above 0")
        if self.launches < 1:
            raise InvalidArgument(f"launches={self.launches}", "a whole number of at least 1")
        if self.seed < 0:
            raise InvalidArgument(f"seed={self.seed}", "a whole number of at least 0")

    def as_options(self) -> dict[str, str | int | float | bool]:
        """The settings as a record keeps them."""
        return asdict(self)
