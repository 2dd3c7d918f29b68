"""A submission that a real training run made, for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from deep_bench.mlperf.training.callback import kept_caches
from deep_bench.mlperf.training.runs import Timed, planned
from deep_bench.training.recipes import Recipe, load_recipe

FACTS = {"submitter": "A lab", "system_name": "Box 1", "status": "rdi", "cooling": "air"}


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    """The shipped recipe with a network that trains in a fraction of a second."""
    small = ("network=mlp", "network.hidden=[64]", "target.accuracy=0.9")
    return load_recipe("digits", *small, "evaluation.every=256", "name=digits-mlp")


@pytest.fixture(scope="session")
def made(recipe: Recipe) -> Iterator[Timed]:
    """Five runs."""
    with TemporaryDirectory() as folder:
        timed = planned(recipe, "reference", seeds=range(5), output=Path(folder) / "lab", facts=FACTS, clear=kept_caches)
        timed.run(progress=False)
        yield timed


@pytest.fixture(scope="session")
def log_lines(made: Timed) -> list[str]:
    """The lines of the log of one run that is as it should be."""
    return made.layout.log(0).read_text(encoding="utf-8").splitlines()
