"""Fixtures that give each test one real network and its input."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from .fetch import Unreachable, fetch
from .table import REAL, Real

FIRST = {real.package.name: real for real in reversed(REAL)}
"""The first network of each package: the others, which are much like it, run in ``make test-full``."""

LONG = {"dnsmos_sig", "ppocr_det", "magika", "swift_f0"}
"""They take longest, and run in ``make test-full`` only."""


def parameters(short: Collection[str]) -> list[ParameterSet]:
    """All real networks, of which only those named run in ``make test``."""
    return [pytest.param(real, id=real.name, marks=() if real.name in short else pytest.mark.full) for real in REAL]


@pytest.fixture(params=parameters({real.name for real in FIRST.values()} - LONG))
def real(request: pytest.FixtureRequest) -> Real:
    """One entry of the table of real networks: parametrises the test over all of them."""
    return request.param


@pytest.fixture
def path(real: Real) -> Path:
    """The file of the network ``real``; skips, or with ``CI=true`` fails, where it cannot be fetched."""
    return network_file(real)


def network_file(real: Real) -> Path:
    """The file of a network; skips, or with ``CI=true`` fails, where it cannot be fetched."""
    try:
        return fetch(real.package, real.name)
    except Unreachable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{real.name}: {error}")
        pytest.skip(f"{real.name}: {error}")
