"""Distances of arrays in which not all needs to be finite."""

from __future__ import annotations

import numpy as np


def size(x: np.ndarray) -> float:
    """The Euclidean norm of what is finite in an array."""
    return float(np.linalg.norm(x[np.isfinite(x)]))


def distance(x: np.ndarray, y: np.ndarray) -> float:
    """The Euclidean distance: elements that are finite in neither count as equal, and one that is in one only as infinite.

    Example:
        >>> distance(np.array([np.nan, 3.0, np.inf]), np.array([np.nan, 0.0, np.nan]))
        3.0
        >>> distance(np.array([np.nan, 3.0]), np.array([1.0, 3.0]))
        inf
    """
    mine, theirs = np.isfinite(x), np.isfinite(y)
    both = mine & theirs
    return float("inf") if (mine != theirs).any() else float(np.linalg.norm(x[both] - y[both]))


def apart(x: np.ndarray, expected: np.ndarray) -> str:
    """Where an array is finite and what was expected is not, or the reverse, in words; empty where they agree.

    Example:
        >>> apart(np.array([np.nan, 3.0]), np.array([1.0, 3.0]))
        "not finite in 1 of 2 elements where the oracle's is"
    """
    mine, theirs = np.isfinite(x), np.isfinite(expected)
    lacking, beyond = int((theirs & ~mine).sum()), int((mine & ~theirs).sum())
    if lacking:
        return f"not finite in {lacking} of {x.size} elements where the oracle's is"
    return f"finite in {beyond} of {x.size} elements where the oracle's is not" if beyond else ""
