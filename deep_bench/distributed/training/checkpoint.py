"""A checkpoint of several ranks: what is common once, and of each rank what is its own.

Another number of ranks can go on from it, between epochs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from deep_bench.arrays import Path, Tree, digest, grown, leaves
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.distributed.training.messages import Bytes, as_bytes, broadcast, empty_branches, gather, of_bytes, scatter
from deep_bench.errors import InvalidArgument
from deep_bench.training.run_state import check_kind

RANKS, WORLD = "ranks", "world"
"""Branches of the tree beside those of rank 0: each other rank's own part, and the number of ranks."""


_OWN, _PATHS = "own", "paths"


def gathered(comm: Communicator, tree: Tree) -> Tree:
    """A tree for a file, of all ranks' trees; on rank 0. Elsewhere this rank's.

    Only leaves that differ from rank 0's are sent.

    Args:
        comm: The ranks, which all call this together.
        tree: This rank's.
    """
    mine = leaves(tree)
    tables = gather(comm, _text({json.dumps(path): digest(np.asarray(leaf)) for path, leaf in mine.items()}))
    if tables is None:
        requested = json.loads(scatter(comm, None).tobytes())
        subtree = grown({path: mine[path] for path in map(tuple, requested)})
        gather(comm, as_bytes({_OWN: subtree, _PATHS: _text({"leaves": list(mine), "empty": empty_branches(tree)})}))
        return tree
    first = json.loads(tables[0].tobytes())
    differing = [[json.loads(p) for p, d in json.loads(t.tobytes()).items() if first.get(p) != d] for t in tables]
    scatter(comm, [_text(paths) for paths in differing])
    parts = gather(comm, np.zeros(0, np.uint8))
    assert parts is not None
    ranks = {str(rank): of_bytes(part) for rank, part in enumerate(parts) if rank}
    return {**tree, RANKS: ranks, WORLD: _text({"ranks": comm.size})}


def parted(comm: Communicator, whole: Tree | None) -> tuple[Tree, list[Tree]]:
    """This rank's tree again; all call this together.

    Args:
        comm: The ranks.
        whole: On rank 0 what `gathered` gave there, or a tree of one process; elsewhere it does not matter.

    Returns:
        This rank's tree; and if the checkpoint was written by another number of ranks, those of all of them, of which this
        rank's is the first.

    Raises:
        InvalidArgument: Rank 0 has none; on all ranks.
    """
    common, subtrees, size = _split(whole) if comm.rank == 0 and whole is not None else ({}, [], 0)
    head = broadcast(comm, _text(size) if comm.rank == 0 else None)
    then = int(json.loads(head.tobytes()))
    if not then:
        raise InvalidArgument("no snapshot on rank 0", "what Trainer.snapshot gave there, or a checkpoint")
    shared = of_bytes(broadcast(comm, as_bytes(common) if comm.rank == 0 else None))
    if then == comm.size:
        part = of_bytes(scatter(comm, [as_bytes(subtree) for subtree in subtrees] if comm.rank == 0 else None))
        return _merged(shared, part), []
    packed = as_bytes({str(rank): subtree for rank, subtree in enumerate(subtrees)}) if comm.rank == 0 else None
    all_own = of_bytes(broadcast(comm, packed))
    trees = [_merged(shared, all_own[str(rank)]) for rank in range(then)]
    return trees[0], trees


def _split(whole: Tree) -> tuple[Tree, list[Tree], int]:
    common = {name: branch for name, branch in whole.items() if name not in (RANKS, WORLD)}
    size = json.loads(np.asarray(whole[WORLD]).tobytes())["ranks"] if WORLD in whole else 1
    subtrees: list[Tree] = [{}, *(whole[RANKS][str(rank)] for rank in range(1, size))]
    return common, subtrees, size


def _merged(common: Tree, part: Tree) -> Tree:
    if not part:
        return common
    paths = json.loads(np.asarray(part[_PATHS]).tobytes())
    by_path = {**leaves(common), **leaves(part[_OWN])}
    tree = grown({tuple(path): by_path[tuple(path)] for path in paths["leaves"]})
    for path in paths["empty"]:
        branch: Any = tree
        for key in path:
            branch = branch.setdefault(key, {})
    return tree


def mean_of(trees: Sequence[Tree]) -> Tree:
    """The mean of real leaves of several trees alike; of others the first.

    Example:
        >>> mean_of([{"w": np.float32([1]), "n": np.int64(3)}, {"w": np.float32([2]), "n": np.int64(4)}])
        {'w': array([1.5], dtype=float32), 'n': np.int64(3)}
    """
    leaf_maps = [leaves(tree) for tree in trees]

    def mean(path: Path) -> Any:
        rows = [np.asarray(leaf_map[path]) for leaf_map in leaf_maps]
        if rows[0].dtype.kind in "biu" or equal_states(rows):
            return leaf_maps[0][path]
        return np.mean([row.astype(np.float64) for row in rows], axis=0).astype(rows[0].dtype)

    return grown({path: mean(path) for path in leaf_maps[0]})


def equal_states(arrays: Iterable[Any]) -> bool:
    """Whether arrays are equal bit for bit, with shapes and types."""
    return len({digest(np.asarray(array)) for array in arrays}) <= 1


def _text(content: Any) -> Bytes:
    return np.frombuffer(json.dumps(content).encode(), np.uint8).copy()


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
