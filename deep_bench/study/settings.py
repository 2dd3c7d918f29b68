"""What everything that checks and measures may be told, and a run of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, get_args

from deep_bench.errors import InvalidArgument

Checking = Literal["auto", "quick", "full", "off"]
"""How hard to look whether results are right."""


class Common(Protocol):
    """Settings of any kind."""

    @property
    def seed(self) -> int:
        """Of all that is drawn."""

    @property
    def ci_width(self) -> float:
        """The share of a median that half its 95 % interval may be."""

    @property
    def check(self) -> Checking:
        """How hard to look whether results are right."""


def refuse_bad(settings: Common, *, seconds: Sequence[str] = ("budget",), counts: Sequence[str] = ()) -> None:
    """See that settings are within their ranges.

    Args:
        settings: The settings.
        seconds: Names of those that are a number of seconds above 0.
        counts: Names of those that are a whole number of at least 1.

    Raises:
        InvalidArgument: One is not.

    Example:
        >>> from types import SimpleNamespace
        >>> refuse_bad(SimpleNamespace(check="off", ci_width=0.01, seed=0, budget=-1.0))
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidArgument: budget=-1.0
        Expected: seconds, above 0
    """
    if settings.check not in get_args(Checking):
        raise InvalidArgument(f"check={settings.check!r}", f"one of {', '.join(get_args(Checking))}")
    kinds: dict[str, Any] = {"ci_width": float, **dict.fromkeys(seconds, float), **dict.fromkeys((*counts, "seed"), int)}
    for name, kind in kinds.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, kind | int):
            raise InvalidArgument(f"{name}={value!r}", f"a number of type {kind.__name__}")
    if not 0 < settings.ci_width < 1:
        raise InvalidArgument(f"ci_width={settings.ci_width}", "a share above 0 and below 1, such as 0.01")
    for name in seconds:
        if not 0 < getattr(settings, name) < float("inf"):
            raise InvalidArgument(f"{name}={getattr(settings, name)}", "seconds, above 0")
    for name in counts:
        if getattr(settings, name) < 1:
            raise InvalidArgument(f"{name}={getattr(settings, name)}", "a whole number of at least 1")
    if settings.seed < 0:
        raise InvalidArgument(f"seed={settings.seed}", "a whole number of at least 0")


@dataclass(frozen=True)
class NetworkSettings:
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
