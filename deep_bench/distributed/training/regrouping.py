"""A checkpoint of one number of ranks, as another number goes on from it."""

from __future__ import annotations

from typing import Any

from deep_bench.arrays import Tree
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.distributed.training.parts import mean_of
from deep_bench.errors import InvalidArgument
from deep_bench.training.identity import check_kind


def regrouped(rule: DistributedOptimizer[Any, Any], snapshots: list[Tree]) -> Tree:
    """What this rank's step goes on with: means of parameters and statistics, and what the scheme makes of its states.

    Args:
        rule: The scheme.
        snapshots: Of all ranks that there were.

    Raises:
        InvalidArgument: Their states are of another scheme or cannot be shared out anew; or they took steps each on their
            own and not all have ended the same epoch.
    """
    check_kind(repr(rule), snapshots[0]["identity"])
    if not rule.lockstep:
        _check_between_epochs(snapshots, rule.comm.size)
    steps = [tree["step"] for tree in snapshots]
    both = {part: mean_of([tree[part] for tree in steps]) for part in ("parameters", "statistics")}
    return {**both, "optimizer": rule.regrouped([tree["optimizer"] for tree in steps])}


def _check_between_epochs(snapshots: list[Tree], size: int) -> None:
    """What a rank still has to do in an epoch is its own, and nobody else's."""
    places = {(int(snapshot["position"][0]), int(snapshot["position"][1])) for snapshot in snapshots}
    if len(places) > 1 or any(position for _, position in places):
        raise InvalidArgument(
            f"a checkpoint amid an epoch, of {len(snapshots)} ranks that took steps each on their own, for {size}",
            f"{len(snapshots)} ranks",
            "go on with as many, or from the end of an epoch",
        )
