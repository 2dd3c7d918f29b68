"""``reduce``: the smallest network and inputs that still show a disagreement, a crash, or anything else."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network
from deep_bench.measure.progress import Bars
from deep_bench.network.problem import Problem, make_problem
from deep_bench.network.reduction.candidate import Candidate
from deep_bench.network.reduction.search import OutOfTimeError, Predicate, Search
from deep_bench.network.reduction.shrink import shrink
from deep_bench.network.reduction.simplify import simpler_attributes, simpler_values
from deep_bench.network.reduction.structure import bypass, fewer_nodes, fewer_outputs
from deep_bench.network.suspect import quiet

_ROUNDS = 4

End = Literal["finished", "time", "interrupted"]
"""What ended a search."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """The smallest network that was found.

    Args:
        network: It.
        inputs: What it is fed.
        expected: The oracle's outputs; empty if a node has no reference.
        predicate: What it satisfies.
        before: How many nodes there were.
        steps: What made it smaller, in order.
        tried: How many networks the predicate was asked about.
        finished: Whether nothing further can be left out, by these means; else the time was spent.
        interrupted: Whether it was ended by Ctrl-C.
        notes: Remarks.
        crashed: On how many of them a framework's process ended: by a crash, out of memory, or at its time limit.
        seconds: What it took.
    """

    network: Network
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    predicate: Predicate
    before: int
    steps: Sequence[str]
    tried: int
    finished: bool
    interrupted: bool
    notes: Sequence[str] = ()
    crashed: int = 0
    seconds: float = field(default=0.0, compare=False)

    def save(self, folder: str | Path) -> Path:
        """Write ``model.onnx``, ``inputs.npz``, ``expected.npz`` and ``reproduce.py``, which does without deep_bench.

        For a wrong result there is also ``actual.npz``. Files of these names that an earlier reduction left are replaced or
        removed, once all new ones are on the disk.

        Returns:
            The folder.
        """
        self.write(folder)
        return Path(folder)

    def write(self, folder: str | Path) -> list[str]:
        """The same.

        Returns:
            The names of the files that were written.
        """
        from deep_bench.network.reduction.save import save

        return save(self, folder)

    def __str__(self) -> str:
        operators = ", ".join(f"{n.name} ({n.op_type})" for n in self.network.nodes if n.op_type != "Constant")
        end = (
            "smallest" if self.finished else "smallest so far (interrupted)" if self.interrupted else "smallest in that time"
        )
        count = sum(1 for n in self.network.nodes if n.op_type != "Constant")
        tried = f"{self.tried} tried" + (f" ({self.crashed} crashed)" if self.crashed else "")
        return f"{self.before} nodes reduced to {count} in {self.seconds:.0f} s, {tried}, {end}: {operators}"


def reduce(
    network: str | Path | Network,
    inputs: str | Path | Mapping[str, np.ndarray] | None,
    predicate: Predicate,
    *,
    budget: float = 300.0,
    sizes: Mapping[str, int] | None = None,
    batch: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Reduced:
    """Shrink a network and its inputs to the smallest that still satisfies a predicate.

    Delta debugging on the graph: nodes and outputs are left out, with the oracle's values fed in their place; nodes are
    bypassed; dimensions of inputs and weights are cut; attributes are left to their defaults; numbers made simple. Each
    candidate is checked by the predicate. Where the framework's process ends on one, that candidate does not satisfy it
    (unless a crash is what is looked for), and another process is started.

    Args:
        network: A network, a file, or the name of one that ships.
        inputs: An ``.npz`` file or arrays by name; ``None`` draws them.
        predicate: Called with a network and its inputs; `Wrong`, `Crashes` and `Slower` are ready-made. An exception counts
            as ``False``, but for the first call. Dimensions are fixed, unless it has an attribute ``as_given`` that is true.
        budget: Seconds for the search. What was found by then is kept; so it is after Ctrl-C.
        sizes, batch, seed: As for `run`.
        progress: False shows no bar on a terminal.

    Raises:
        InvalidArgument: The predicate does not hold for the network itself.

    Example:
        >>> import deep_bench as db
        >>> def has_pool(network, inputs):
        ...     return any(node.op_type == "MaxPool" for node in network.nodes)
        >>> found = db.network.reduce("digits-cnn", None, has_pool)
        >>> [node.name for node in found.network.nodes], [str(spec) for spec in found.network.inputs]
        (['pool'], ['pointwise_active: float32[1, 1, 1, 1]'])

    Source:
        Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*, IEEE TSE 28(2), 2002.
    """
    start = time.perf_counter()
    problem = make_problem(network, inputs=inputs, sizes=sizes, batch=batch, seed=seed)
    whole = _first(predicate, problem)
    bars = Bars(progress)
    bars.phase("reducing", budget, "s")
    search = Search(predicate, whole, budget, bars)
    with closing(bars):
        end = _searched(search)
    return _result(search, whole, end, time.perf_counter() - start)


def _first(predicate: Predicate, problem: Problem) -> Candidate:
    """The network itself, for which the predicate holds."""
    posed = problem.source if getattr(predicate, "as_given", False) else problem.network
    whole = Candidate(posed, problem.inputs.arrays)
    with quiet():
        shown = predicate(whole.network, whole.inputs)
    if not shown:
        raise InvalidArgument(
            f"{whole.network.name} does not show it: {_said(predicate)}",
            "a network and inputs for which the predicate holds",
            "see what `deep-bench diverge` says of it, or give other inputs",
        )
    return whole


def _searched(search: Search) -> End:
    """Search until nothing helps, the time is spent, or the user has had enough."""
    try:
        _reduce(search)
    except OutOfTimeError:
        return "time"
    except KeyboardInterrupt:
        return "interrupted"
    return "finished"


def _reduce(search: Search) -> None:
    """All means in turn, those that change the structure until none helps."""
    for _ in range(_ROUNDS):
        before = len(search.steps)
        if search.best.comparable:
            fewer_nodes(search)
        fewer_outputs(search)
        if search.best.comparable:
            bypass(search)
        shrink(search)
        if len(search.steps) == before:
            break
    simpler_attributes(search)
    shrink(search)
    simpler_values(search)


def _result(search: Search, whole: Candidate, end: End, seconds: float) -> Reduced:
    best = search.best
    notes = []
    if search.failed:
        notes.append(
            f"the predicate failed on {search.failed} candidates, which counts as no; first: {search.first_failure}"
        )
    if not whole.comparable:
        notes.append("a node has no reference, so nothing could be fed in place of nodes, and dimensions were left alone")
    return Reduced(
        network=best.network,
        inputs=best.inputs,
        expected=best.expected() if best.comparable else {},
        predicate=search.predicate,
        before=len(whole.nodes),
        steps=tuple(search.steps),
        tried=search.tried,
        finished=end == "finished",
        interrupted=end == "interrupted",
        notes=tuple(notes),
        crashed=search.crashed,
        seconds=seconds,
    )


def _said(predicate: Any) -> str:
    return str(getattr(predicate, "description", getattr(predicate, "__name__", type(predicate).__name__)))
