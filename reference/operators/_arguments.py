"""Complaints about attribute values, in the words of the house."""

from __future__ import annotations

from collections.abc import Collection

from deep_bench.errors import Unsupported


def check_choice(operator: str, attribute: str, value: object, known: Collection[object]) -> None:
    """Refuse an attribute value that the standard does not define.

    Raises:
        Unsupported: ``value`` is not among ``known``.
    """
    if value not in known:
        raise Unsupported(f"{operator} with {attribute}={value!r}", f"one of {', '.join(map(repr, known))}")
