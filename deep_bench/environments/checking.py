"""Whether an environment can be worked in: a worker is started in it, and ended."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from deep_bench.measure.place import Place
from deep_bench.measure.workers import Worker


def looked_at(place: Place) -> dict[str, Any]:
    """What a record would keep of it: its Python, its packages, deep_bench there, and what was locked.

    Raises:
        InvalidArgument, Unsupported: It cannot be worked in, and why.
        WorkerDied: Its process ended while it was started.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with Worker("collections:Counter", {}, label=place.name, log=log, place=place) as worker:
            return worker.place_facts
