"""Whether an operator leaves alone what it is timed and judged with: its inputs, the clock, the checker."""

from __future__ import annotations

from collections.abc import Sequence

from deep_bench.measure.record import TrialRecord, VerdictRecord
from deep_bench.operators.studies.heat import Heat

_SHOWN = 3


def note_loaded(prepared: dict[str, object], trial: TrialRecord) -> None:
    """Take what loading said of gradients that failed: the rest of the trial goes on without them."""
    facts = prepared["facts"]
    failed = facts["gradients_failed"]  # type: ignore[index]
    if failed is not None:
        trial.gradients = VerdictRecord(verdict="failed", reason=f"gradients: {failed}")


def note_changes(heat: Heat, label: str, trial: TrialRecord) -> bool:
    """Call an operator wrong that changes its inputs: it is timed and judged on what it has made of them.

    Args:
        heat: Who is on the case.
        label: The operator.
        trial: What was found of it so far.

    Returns:
        Whether forward does.
    """
    first: list[str] = heat.prepared[label]["facts"]["changed"]
    if first:
        _wrong(trial, f"changes its {_inputs(first)}")
        return True
    later, with_gradients = heat.call(label, "changed")
    if later:
        _wrong(trial, f"a later call changes its {_inputs(later)}")
    elif with_gradients:
        trial.gradients = _as_wrong(trial.gradients, f"gradients: backward changes {', '.join(with_gradients)}")
    return bool(later)


def note_patches(heat: Heat, label: str, trial: TrialRecord) -> None:
    """Call an operator wrong that has replaced the clock, NumPy's functions or the checker's: nothing of it can be believed.

    Args:
        heat: Who is on the case.
        label: The operator.
        trial: What was found of it so far.
    """
    names: list[str] = heat.call(label, "patched")
    if names:
        remainder = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        _wrong(trial, f"replaces {', '.join(names[:_SHOWN])}{remainder}, which it is timed and judged with")


def _wrong(trial: TrialRecord, reason: str) -> None:
    trial.verdict = _as_wrong(trial.verdict, reason)


def _as_wrong(verdict: VerdictRecord | None, reason: str) -> VerdictRecord:
    if verdict is None:
        return VerdictRecord(verdict="wrong", reason=reason)
    return verdict.model_copy(update={"verdict": "wrong", "reason": reason})


def _inputs(names: Sequence[str]) -> str:
    return f"input{'s' if len(names) > 1 else ''} {', '.join(names)}"
