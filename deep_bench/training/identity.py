"""What a run is a run of: what a snapshot must have in common with the trainer that goes on from it."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument

_KIND = "kind of step"
"""What cannot be changed from one part of a run to the next: the optimizer's state has another form."""

_KINDS = re.compile(r"\b[A-Z]\w*(?=\()")
"""The classes in what an optimizer shows of itself."""

AFRESH = (
    "or start afresh from its parameters alone, put into the network's file: docs/distributed.md, "
    "'From the parameters of another run'"
)

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def identity_of(taker: Any, loader: Any, seed: int) -> dict[str, str]:
    """The settings that decide what each step does, by name.

    Args:
        taker: What takes the steps.
        loader: What gives the batches.
        seed: Of the draws.
    """
    sampler: Any = getattr(loader, "sampler", None)
    dataset: Any = getattr(loader, "dataset", None)
    facts = sampler.facts() if hasattr(sampler, "facts") else type(sampler).__name__
    size = len(dataset) if hasattr(dataset, "__len__") else "unknown"
    specs = "; ".join(map(str, getattr(dataset, "specs", ())))
    framework = str(getattr(taker.device, "name", type(taker.device).__name__)).partition(":")[0]
    return {
        "framework": framework,
        _KIND: "gradients and update apart" if taker.tells_gradients else "all of it as one graph",
        "optimizer": _ADDRESS.sub("", repr(taker.rule)),
        "order of the samples": json.dumps(facts, sort_keys=True, default=str),
        "samples": f"{size} of {specs}",
        "seed": str(seed),
    }


def packed(identity: dict[str, str]) -> np.ndarray:
    """It as an array of bytes, which a checkpoint can hold."""
    return np.frombuffer(json.dumps(identity).encode(), np.uint8)


def check_identity(mine: dict[str, str], snapshot: Any, *, changed: bool = False) -> None:
    """Whether a snapshot is of a run with the same settings.

    Args:
        mine: Those of the trainer that is to go on.
        snapshot: Those of the snapshot, `packed`.
        changed: Whether other settings are meant; the kind of step must be the same even so.

    Raises:
        InvalidArgument: They differ; what differs is told.
    """
    theirs = unpacked(snapshot)
    differing = [name for name in mine if theirs.get(name) != mine[name] and (name == _KIND or not changed)]
    if not differing:
        return
    advice = "go on with the same settings; or with these by restore(…, changed=True), on the command line --changed"
    if "optimizer" in differing and not same_kind(mine["optimizer"], theirs.get("optimizer", "")):
        advice = (
            "go on with the same optimizer and scheme; with --changed, if the state of another happens to fit; " + AFRESH
        )
    if _KIND in differing:
        advice = f"go on as it began, in {theirs.get('framework')}; or start afresh here"
    raise InvalidArgument(
        "a snapshot of a run with " + "; ".join(f"another {name}: {theirs.get(name)}" for name in differing),
        "; ".join(mine[name] for name in differing),
        advice,
    )


def unpacked(identity: Any) -> dict[str, str]:
    """The inverse of `packed`."""
    facts: dict[str, str] = json.loads(np.asarray(identity, np.uint8).tobytes())
    return facts


def same_kind(one: str, other: str) -> bool:
    """Whether two optimizers that show themselves so are of the same classes, whatever their settings.

    Example:
        >>> same_kind("AllReduce(inner=Adam(lr=1))", "AllReduce(inner=Adam(lr=2))"), same_kind("Adam(lr=1)", "Sgd(lr=1)")
        (True, False)
    """
    return _KINDS.findall(one) == _KINDS.findall(other)


def restore_step(taker: Any, snapshot: Any, mine: dict[str, str]) -> None:
    """Have the step go on from a snapshot; if that is refused for another optimizer's state, say so.

    Args:
        taker: What takes the steps.
        snapshot: The whole snapshot.
        mine: The identity of the trainer that is to go on.
    """
    try:
        taker.restore(snapshot["step"])
    except InvalidArgument as error:
        if snapshot["step"].get("parameters", {}).keys() == taker.parameters.keys():
            check_kind(mine["optimizer"], snapshot["identity"], error)
        raise


def check_kind(mine: str, snapshot: Any, cause: Exception | None = None) -> None:
    """Whether a snapshot's state is of an optimizer of the same kind.

    Args:
        mine: What the optimizer that is to go on shows of itself.
        snapshot: The identity of the snapshot, `packed`.
        cause: What came of it.

    Raises:
        InvalidArgument: It is of another optimizer or scheme; both are named.
    """
    theirs = unpacked(snapshot).get("optimizer", "")
    if not same_kind(mine, theirs):
        came = f"a snapshot of {theirs}: {mine} has a state of another form"
        raise InvalidArgument(came, "the same optimizer and scheme", f"go on with these; {AFRESH}") from cause
