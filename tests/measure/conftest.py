from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from deep_bench.measure.timing import Block
from deep_bench.workers.fleet import Contender
from deep_bench.workers.process import Worker

HERE = Path(__file__).parent


@pytest.fixture
def contender() -> Callable[..., Contender]:
    """Makes a contender of a class in `tiny_systems`."""

    def make(label: str, name: str = "Tiny", **arguments: object) -> Contender:
        return Contender(label, f"tiny_systems:{name}", arguments, path=(HERE,))

    return make


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Starts workers of classes in `tiny_systems`, and ends them after the test."""
    workers: list[Worker] = []

    def make(name: str = "Tiny", arguments: dict[str, object] | None = None, **options: object) -> Worker:
        worker = Worker(f"tiny_systems:{name}", arguments, **{"log": tmp_path / "log", "path": [HERE], **options})
        workers.append(worker)
        return worker

    yield make
    for worker in workers:
        worker.close()


@pytest.fixture
def blocks() -> Callable[..., list[Block]]:
    """Makes blocks of log-normal times about a level; ``between`` is the relative spread of the blocks' levels."""

    def make(
        random: np.random.Generator,
        count: int = 10,
        size: int = 100,
        level: float = 1e6,
        within: float = 0.1,
        between: float = 0.0,
    ) -> list[Block]:
        levels = level * np.exp(random.normal(0, between, count))
        return [
            Block(0, 1, (at * np.exp(random.normal(0, within, size))).astype(np.int64), np.zeros(size, bool), int(2 * at))
            for at in levels
        ]

    return make
