"""The networks that people use, checked in every framework: all must come out right."""

from __future__ import annotations

from pathlib import Path

import pytest

import deep_bench as db

from .table import Real, sizes

pytestmark = pytest.mark.real


def installed() -> list[str]:
    return [name for name in db.frameworks if not db.frameworks.missing(name)]


@pytest.mark.long
def test_every_framework_is_right(real: Real, path: Path) -> None:
    network = db.load(path)
    inputs = real.inputs()
    found = db.run(
        network,
        on=installed(),
        inputs=inputs,
        sizes=sizes(network, inputs),
        check="quick",
        budget=0.5,
        ci_width=0.5,
        twin=False,
        progress=False,
    )
    verdicts = {label: (s.verdict, s.reason) for label, s in found.items() if s.verdict != "right"}
    assert not verdicts
    for label, system in found.items():
        assert not system.record.forms.fallback, f"{label} falls back: {system.record.forms.fallback}"
