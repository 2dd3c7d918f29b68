"""Whether an operator leaves alone what it is timed and judged with: its inputs, the clock, the checker."""

from __future__ import annotations

from collections.abc import Sequence

from deep_bench.measure.record import TrialRecord, VerdictRecord
from deep_bench.operators.studies.heat import Heat
from deep_bench.operators.studies.quantities import BACKWARD, BOTH

_SHOWN = 3


def note_loaded(prepared: dict[str, object], trial: TrialRecord) -> None:
    """Take what loading said of gradients that failed: the rest of the trial goes on without them."""
    facts = prepared["facts"]
    failed = facts["gradients_failed"]  # type: ignore[index]
    if failed is not None:
        trial.gradients = VerdictRecord(verdict="failed", reason=f"gradients: {failed}")


def note_changes(heat: Heat, label: str, trial: TrialRecord) -> None:
    """Call an operator wrong that changes its inputs: it is timed and judged on what it has made of them.

    Args:
        heat: Who is on the case.
        label: The operator.
        trial: What was found of it so far.
    """
    prepared = heat.prepared[label]
    first: list[str] = prepared["facts"]["changed"]
    if first:
        _wrong(trial, f"changes its {_inputs(first)}")
        return
    later: list[str] = heat.call(label, "changed")
    if not later:
        return
    if any(name in prepared["calls"] for name in (BOTH, BACKWARD)):
        reason = f"gradients: backward, or a later call of forward, changes the {_inputs(later)}"
        trial.gradients = _as_wrong(trial.gradients, reason)
    else:
        _wrong(trial, f"a later call changes its {_inputs(later)}")


def note_patches(heat: Heat, label: str, trial: TrialRecord) -> None:
    """Call an operator wrong that has replaced the clock, NumPy's functions or the checker's: nothing of it can be believed.

    Args:
        heat: Who is on the case.
        label: The operator.
        trial: What was found of it so far.
    """
    names: list[str] = heat.call(label, "patched")
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        _wrong(trial, f"replaces {', '.join(names[:_SHOWN])}{more}, which it is timed and judged with")


def _wrong(trial: TrialRecord, reason: str) -> None:
    trial.verdict = _as_wrong(trial.verdict, reason)


def _as_wrong(found: VerdictRecord | None, reason: str) -> VerdictRecord:
    changed = {"verdict": "wrong", "reason": reason}
    return VerdictRecord(**changed) if found is None else found.model_copy(update=changed)


def _inputs(names: Sequence[str]) -> str:
    return f"input{'s' if len(names) > 1 else ''} {', '.join(names)}"
