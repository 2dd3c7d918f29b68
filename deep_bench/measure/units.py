"""Numbers as people read them."""

from __future__ import annotations

_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit that suits a time: its length in seconds, and its sign.

    Example:
        >>> time_unit(0.012), time_unit(0.0)
        ((0.001, 'ms'), (1e-09, 'ns'))
    """
    return next(((scale, unit) for scale, unit in _SCALES if seconds >= scale), _SCALES[-1])


def duration(seconds: float | None) -> str:
    """A time with four significant digits.

    Example:
        >>> duration(0.00012345), duration(2.0), duration(None)
        ('123.5 µs', '2.000 s', '–')
    """
    if seconds is None:
        return "–"
    scale, unit = time_unit(seconds)
    return f"{significant(seconds / scale, 4)} {unit}"


def duration_range(low: float, high: float) -> str:
    """Two times in the unit of the larger one.

    Example:
        >>> duration_range(0.00012345, 0.0001321)
        '123.5 to 132.1 µs'
    """
    scale, unit = time_unit(high)
    return f"{significant(low / scale, 4)} to {significant(high / scale, 4)} {unit}"


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, and no exponent where it can be helped.

    Example:
        >>> significant(1.0), significant(0.98765), significant(123.4), significant(123456.0)
        ('1.00', '0.988', '123', '123000')
    """
    if value == 0 or not abs(value) < float("inf"):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")
    before = len(str(int(abs(rounded)))) if abs(rounded) >= 1 else 0
    return f"{rounded:.{max(digits - before, 0)}f}" if abs(rounded) >= 1e-3 else f"{rounded:.{digits - 1}e}"


def share(value: float) -> str:
    """A share in per cent.

    Example:
        >>> share(0.0312), share(-0.5)
        ('3.1 %', '-50.0 %')
    """
    return f"{100 * value:.1f} %"
