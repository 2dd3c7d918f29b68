"""All spans of a timeline as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deep_bench.training.timeline.codes import DONE, EMPTY, LEFT, RAISED

if TYPE_CHECKING:
    from deep_bench.training.timeline.result import TimelineResult

ENDINGS = {DONE: "done", RAISED: "raised", LEFT: "left", EMPTY: "empty"}


def rows(result: TimelineResult) -> list[dict[str, Any]]:
    """See `TimelineResult.to_dataframe`."""
    spans, record = result.spans, result.record
    steps, epochs = (spans.within(spans.of_kind(kind), nearest=True) for kind in ("step", "epoch"))
    step_numbers, epoch_numbers = _running(result, "step"), _running(result, "epoch")
    entries = []
    for i in range(len(spans.number)):
        name, step, epoch = record.names[spans.number[i]], int(steps[i]), int(epochs[i])
        within = [record.names[n] for n in spans.paths[spans.path[i]]]
        outer = max(step, epoch)  # the later begun lies in the other
        entries.append(
            {
                "kind": name.kind,
                "name": name.name,
                "path": "/".join(n.name for n in within if n.kind == "region"),
                "phase": record.names[spans.number[outer]].name if outer >= 0 else None,
                "epoch": int(epoch_numbers[epoch]) if epoch >= 0 else None,
                "step": int(step_numbers[step]) if step > epoch else None,
                "thread": record.threads[spans.thread[i]].name,
                "begin": (int(spans.begin[i]) - record.start_ns) / 1e9,
                "duration": int(spans.duration[i]) / 1e9,
                "own": int(spans.own[i]) / 1e9,
                "ending": ENDINGS[int(spans.ending[i])],
            }
        )
    return entries


def _running(result: TimelineResult, kind: str) -> np.ndarray:
    """The running number of each epoch or step within its phase, by its begin; -1 for other spans."""
    spans = result.spans
    numbers = np.full(len(spans.number), -1)
    for number in np.unique(spans.number[spans.of_kind(kind)]):
        members = np.flatnonzero((spans.number == number) & (spans.ending != EMPTY))
        members = members[np.argsort(spans.begin[members], kind="stable")]
        numbers[members] = np.arange(len(members))
    return numbers
