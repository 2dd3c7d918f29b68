"""What a fault is told with: one message, and a file with the tracebacks of all ranks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from deep_bench.distributed.faults.verdict import Failure, Fault, Seen
from deep_bench.distributed.training.same import numbered
from deep_bench.errors import shortened

_LONGEST = 2_000
"""Characters of what an exception says."""


def message(
    fault: Fault,
    ranks: Mapping[int, Seen],
    size: int,
    *,
    file: Path | None = None,
    resume: str = "",
    out_of_memory: bool = False,
) -> str:
    """The message: which rank, on which host, why, and what to do.

    Args:
        fault: What is wrong.
        ranks: What is known of each.
        size: How many there were.
        file: Where tracebacks are.
        resume: How to go on.
        out_of_memory: Whether the kernel has ended a process there for lack of memory meanwhile.

    Example:
        >>> from deep_bench.distributed.faults.where import Place
        >>> seen = {0: Seen("n0", 10, 0.0), 1: Seen("n1", 11, 0.0, Place(12, "allreduce", 0.2))}
        >>> print(message(Fault("lost", (1,)), seen, 2))
        rank 1 of 2 on n1 was killed or crashed, last heard of after 12 steps, in allreduce: its process ended without a word
        What to do: the kernel's log (dmesg on n1) tells whether memory ran out
    """
    host = ranks[fault.ranks[0]].host
    lines = [f"{_who(fault, ranks, size)} {_cause(fault, ranks, out_of_memory=out_of_memory)}"]
    advice = [_ADVICE[fault.kind].format(host=host)] if fault.kind in _ADVICE and not out_of_memory else []
    failure = ranks[fault.ranks[0]].failure
    if resume and fault.kind != "interrupted" and (failure is None or "What to do:" not in failure.text):
        advice.append(resume)
    if advice:
        lines.append(f"What to do: {'; '.join(advice)}")
    if file is not None and fault.kind != "interrupted":
        lines.append(f"Tracebacks of all ranks: {file}")
    return "\n".join(lines)


_ADVICE = {
    "lost": "the kernel's log (dmesg on {host}) tells whether memory ran out",
    "memory": "take smaller batches, or fewer ranks on a node",
    "silent": "look whether {host} can be reached, and what its processes do",
    "hangs": "the tracebacks tell where it is; a larger --patience if it only was slow",
    "left": "ranks must call the same operations in the same order",
    "deadlock": "ranks must call the same operations in the same order",
}


def _who(fault: Fault, ranks: Mapping[int, Seen], size: int) -> str:
    if fault.kind == "deadlock":
        return f"the {size} ranks"
    hosts = ", ".join(dict.fromkeys(ranks[rank].host for rank in fault.ranks))
    return f"{_ranks(fault.ranks)} of {size} on {hosts}"


def _cause(fault: Fault, ranks: Mapping[int, Seen], *, out_of_memory: bool) -> str:
    first = ranks[fault.ranks[0]]
    where, since = _where(first), f"{fault.since_s:.0f} s"
    if fault.kind == "lost":
        killed = "was killed, it seems for lack of memory," if out_of_memory else "was killed or crashed,"
        return f"{killed} last heard of {where}: its process ended without a word"
    if fault.kind == "silent":
        return f"has not answered for {since}, last heard of {where}: it was stopped, or its node cannot be reached"
    if fault.kind == "hangs":
        return f"hangs: for {since}, {where}, while {_waiting(fault)}"
    if fault.kind == "left":
        return f"came to its end, while for {since} {_waiting(fault)}"
    if fault.kind == "deadlock":
        return f"wait for each other, for {since}: {_waiting(fault)}"
    assert first.failure is not None
    summary = shortened(first.failure.text, _LONGEST)
    verb = {"memory": "ran out of memory", "interrupted": "was interrupted", "disturbed": "lost the others"}
    return f"{verb.get(fault.kind, 'failed')}, {where}" + (f": {summary}" if summary else "")


def _where(status: Seen) -> str:
    place = status.place
    steps = "before the first step" if not place.step else f"after {place.step} step{'s' * (place.step > 1)}"
    inside = place.operation or place.line if status.failure is None else ""
    return f"{steps}, in {inside}" if inside else steps


def _waiting(fault: Fault) -> str:
    by: dict[str, list[int]] = {}
    for rank, operation in fault.waiting.items():
        by.setdefault(operation, []).append(rank)
    return " and ".join(f"{_ranks(ranks)} wait{'s' * (len(ranks) == 1)} in {where}" for where, ranks in by.items())


def _ranks(ranks: Iterable[int]) -> str:
    numbers = sorted(ranks)
    return f"rank{'s' * (len(numbers) > 1)} {numbered(numbers)}"


class Tracebacks:
    """The file of tracebacks, which is there as soon as it is named, and grows by what ranks tell.

    Args:
        folder: Where it is made; ``None`` for none.
    """

    def __init__(self, folder: Path | None) -> None:
        self.file = None if folder is None else folder / time.strftime(f"ranks_%Y%m%d-%H%M%S_{os.getpid()}.txt")

    def begin(self, failures: Iterable[tuple[int, Seen]]) -> None:
        """Write those that are known; without a file that can be written there is none."""
        if self.file is None:
            return
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("x", encoding="utf-8") as file:
                file.write(f"tracebacks of ranks, {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
        except OSError:
            self.file = None
            return
        for rank, status in failures:
            if status.failure is not None:
                self.add(rank, status.host, status.failure.traceback)

    def add(self, rank: int, host: str, text: str) -> None:
        """Write one more."""
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(f"\n--- rank {rank} on {host}\n{text}\n")


def failure_of(error: BaseException, text: str, traceback: str, *, disturbed: bool) -> Failure:
    """An exception as what other ranks are told.

    Args:
        error: It.
        text: What it says.
        traceback: The whole.
        disturbed: Whether it came out of a communicator.

    Example:
        >>> failure_of(MemoryError(), "MemoryError", "", disturbed=False).kind
        'memory'
    """
    if isinstance(error, KeyboardInterrupt):
        return Failure("interrupted", "", traceback)
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__ or "allocate memory" in str(error):
        return Failure("memory", text, traceback)
    return Failure("disturbed" if disturbed else "raised", text, traceback)


def killed_for_memory() -> int:
    """How many processes the kernel of this host has ended for lack of memory, where it tells."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
