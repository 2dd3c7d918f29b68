"""What a run is a run of: what a snapshot must have in common with the trainer that goes on from it."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def identity_of(rule: Any, loader: Any, seed: int) -> dict[str, str]:
    """The settings that decide what each step does, by name.

    Args:
        rule: The optimizer.
        loader: What gives the batches.
        seed: Of the draws.
    """
    sampler: Any = getattr(loader, "sampler", None)
    dataset: Any = getattr(loader, "dataset", None)
    facts = sampler.facts() if hasattr(sampler, "facts") else type(sampler).__name__
    size = len(dataset) if hasattr(dataset, "__len__") else "unknown"
    specs = "; ".join(map(str, getattr(dataset, "specs", ())))
    return {
        "optimizer": _ADDRESS.sub("", repr(rule)),
        "order of the samples": json.dumps(facts, sort_keys=True, default=str),
        "samples": f"{size} of {specs}",
        "seed": str(seed),
    }


def packed(identity: dict[str, str]) -> np.ndarray:
    """It as an array of bytes, which a checkpoint can hold."""
    return np.frombuffer(json.dumps(identity).encode(), np.uint8)


def check_identity(mine: dict[str, str], snapshot: Any) -> None:
    """Whether a snapshot is of a run with the same settings.

    Args:
        mine: Those of the trainer that is to go on.
        snapshot: Those of the snapshot, `packed`.

    Raises:
        InvalidArgument: They differ; what differs is told.
    """
    theirs = json.loads(np.asarray(snapshot, np.uint8).tobytes())
    for name, value in mine.items():
        if theirs.get(name) != value:
            raise InvalidArgument(
                f"a snapshot of a run with another {name}: {theirs.get(name)}",
                value,
                "go on with the same settings; restore(…, changed=True) goes on with these",
            )
