"""One contestant on one case, as a study found it, computed from the record; and all of them as plain values.

The plain values are for JSON and for data frames.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from deep_bench.errors import UnknownName
from deep_bench.measure.roofline import Roofline, Share
from deep_bench.measure.statistics import Interval, Summary, interval_over, median_over, summarize
from deep_bench.measure.timing import Block
from deep_bench.operators.cost import Cost
from deep_bench.operators.studies.settings import FORWARD, QUANTITIES, VERDICT
from deep_bench.records.model import CaseFacts, ErrorRecord, SystemRecord, TrialRecord

if TYPE_CHECKING:
    from deep_bench.measure.compare import Estimate
    from deep_bench.operators.studies.result import Study

RIGHT_ENOUGH = frozenset({"right", "no information", "cannot tell", "unchecked"})
"""Verdicts that do not make a study fail: nothing was found wrong."""


_FAILED = re.compile(r"failed in '(\w+)': ")
_WHEN = {
    "build": "when it was started",
    "prepare": "when it was started",
    "load": "when it was set up or called first",
    "warm_up": "while it was timed",
    "sample": "while it was timed",
}
_LOG = "What to do: its log is"
_ABOVE_ROOF = (
    "more than 100 % of the roof: data that stays in caches, a roof measured under load, work that is left out or not yet "
    "done when the call returns, or a replaced clock"
)
_ORDER = ("failed", "wrong", "reduced precision", "cannot tell", "unchecked", "no information", "right")


class CaseResult:
    """A case of a study.

    Args:
        facts: As the record has them.
    """

    def __init__(self, facts: CaseFacts) -> None:
        self.facts = facts

    @property
    def label(self) -> str:
        """How tables call it."""
        return self.facts.label

    @property
    def name(self) -> str:
        """The operator and the label."""
        operator = self.facts.operator.rpartition("::")[2]
        return self.label if self.label.startswith(operator) else f"{operator} {self.label}".strip()

    @property
    def cost(self) -> Cost | None:
        """What it must compute and move at least; ``None`` where nobody counted it."""
        f = self.facts
        if f.flops is None or f.read_bytes is None or f.written_bytes is None:
            return None
        return Cost(f.flops, f.read_bytes, f.written_bytes, f.special or 0, f.comparisons or 0)

    @property
    def elements(self) -> int:
        """The elements of all its inputs and outputs whose sizes are known."""
        tensors = (*self.facts.inputs, *self.facts.outputs)
        return sum(prod(int(d) for d in t.shape) for t in tensors if all(isinstance(d, int) for d in t.shape))


class Trial:
    """What was found of one contestant on one case. Times are in seconds.

    Args:
        system: The contestant, as the record has it.
        case: The case.
        record: What was found.
        roofline: The roofs of the machine, if they were measured.
    """

    def __init__(self, system: SystemRecord, case: CaseResult, record: TrialRecord, roofline: Roofline | None) -> None:
        self.system, self.case, self.record, self._roofline = system, case, record, roofline
        self._summaries: dict[str, list[Summary]] = {}

    @property
    def label(self) -> str:
        """The contestant's."""
        return self.system.label

    @cached_property
    def verdict(self) -> str:
        """*right*, *reduced precision*, *wrong*, *cannot tell* or *no information*; *unchecked*; or *failed*.

        Where gradients were judged too, the worse of the two verdicts.
        """
        if self.record.error is not None:
            return "failed"
        words = [v.verdict for v in (self.record.verdict, self.record.gradients) if v is not None]
        return min(words, key=_ORDER.index) if words else "unchecked"

    @property
    def ok(self) -> bool:
        """Whether nothing was found wrong."""
        return self.verdict in RIGHT_ENOUGH

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        if self.record.error is not None:
            return _error_line(self.record.error, self.label)
        for judgement in (self.record.verdict, self.record.gradients):
            if judgement is not None and judgement.verdict == self.verdict:
                return judgement.reason
        return self.record.unavailable.get(VERDICT, "it was not asked for")

    @property
    def findings(self) -> list[str]:
        """What is worth knowing and is no failure."""
        noted = [text for v in (self.record.verdict, self.record.gradients) if v is not None for text in v.findings]
        return [*noted, *self._doubts_of_times()]

    @property
    def significant_bits(self) -> float | None:
        """The precision that explains the error seen, in bits; ``None`` if no error was looked at, or nothing rounds."""
        verdict = self.record.verdict
        return None if verdict is None or verdict.verdict == "no information" else verdict.significant_bits

    @property
    def max_error(self) -> float | None:
        """The largest absolute error of any output element."""
        return self.record.verdict.max_abs_error if self.record.verdict is not None else None

    def launches(self, quantity: str = FORWARD) -> list[list[Block]]:
        """The raw samples of one of `deep_bench.operators.studies.settings.QUANTITIES`, launch by launch.

        Raises:
            UnknownName: There is no such quantity.
        """
        if quantity not in QUANTITIES:
            raise UnknownName("quantity", quantity, QUANTITIES)
        launch_blocks = [[block for block in blocks if len(block.ns)] for blocks in self.record.launches(quantity)]
        return [blocks for blocks in launch_blocks if blocks]

    def blocks(self, quantity: str = FORWARD) -> list[Block]:
        """The same of all launches."""
        return [block for blocks in self.launches(quantity) for block in blocks]

    def summaries(self, quantity: str = FORWARD) -> list[Summary]:
        """All statistics of a quantity, in nanoseconds, of each launch."""
        if quantity not in self._summaries:
            self._summaries[quantity] = [summarize(blocks) for blocks in self.launches(quantity)]
        return self._summaries[quantity]

    def summary(self, quantity: str = FORWARD) -> Summary | None:
        """That of the first launch; ``None`` where the quantity was not timed."""
        return next(iter(self.summaries(quantity)), None)

    def median(self, quantity: str = FORWARD) -> float | None:
        """The median time of a call; the median over launches where there are several."""
        return median_over(self.summaries(quantity))

    def interval(self, quantity: str = FORWARD) -> Interval | None:
        """The 95 % interval of the median, and over what it was taken: launches, where there are several."""
        return interval_over(self.summaries(quantity))

    @property
    def flop_rate(self) -> float | None:
        """FLOP/s of the forward call; ``None`` where the operator's definition has none, or it was not timed."""
        cost, median = self.case.cost, self.median()
        return None if cost is None or not cost.flops or median is None else cost.flops / median

    @property
    def byte_rate(self) -> float | None:
        """B/s of compulsory traffic of the forward call."""
        cost, median = self.case.cost, self.median()
        return None if cost is None or not cost.bytes or median is None else cost.bytes / median

    @property
    def share(self) -> Share | None:
        """How near it comes to the roofs of the machine; ``None`` where these were not measured or its cost is unknown."""
        cost, median = self.case.cost, self.median()
        if self._roofline is None or cost is None or median is None or median <= 0:
            return None
        return self._roofline.share(median, cost, dtype=self.case.facts.dtype or "float32")

    def _doubts_of_times(self) -> list[str]:
        times = [self.record.setup_ns or 0, self.record.first_call_ns or 0]
        times += [int(min(block.ns)) for sample in self.record.samples for block in self.blocks(sample.quantity)]
        if min(times) < 0:
            return ["a time below zero: the clock was set back or replaced, and no time of this case can be believed"]
        share = self.share
        return [] if share is None or share.roof is None or share.roof <= 1 else [_ABOVE_ROOF]

    def __repr__(self) -> str:
        return f"Trial({self.label!r}, {self.case.name!r}, {self.verdict}, {self.median()} s)"


def _error_line(error: ErrorRecord, label: str) -> str:
    """An error in a line, with the place in the code that it came from where that is known."""
    lines = [line for line in error.message.removeprefix(f"{label}: ").splitlines() if not line.startswith(_LOG)]
    places = re.findall(r'File "([^"<]+)", line (\d+)', error.details) if error.kind == "WorkerError" else []
    lines = [_FAILED.sub(lambda match: f"{_WHEN.get(match[1], 'when it was asked again')}: ", line) for line in lines]
    return f"{'. '.join(lines)}{f' ({places[-1][0]}, line {places[-1][1]})' if places else ''}"


def study_rows(study: Study) -> list[dict[str, Any]]:
    """One mapping for each contestant on each case; times in seconds, ``None`` where there is no value."""
    return [_row(study, trial) for trial in study.trials]


def study_json(study: Study) -> dict[str, Any]:
    """The derived figures of a study."""
    record = study.record
    assert record.suite is not None
    return {
        "record": str(study.path) if study.path is not None else None,
        "suite": record.suite.name,
        "ok": study.ok,
        "interrupted": study.interrupted,
        "base": study.base,
        "common_cases": list(study.common),
        "contestants": {label: _summary(study, label) for label in study.contestants},
        "launches": study.launches,
        "twins": _twins(study),
        "trials": [
            {**row, "findings": trial.findings, "unavailable": trial.record.unavailable, "metrics": trial.record.metrics}
            for row, trial in zip(study_rows(study), study.trials, strict=True)
        ],
        "notes": record.notes,
    }


def _row(study: Study, trial: Trial) -> dict[str, Any]:
    facts, cost, share = trial.case.facts, trial.case.cost, trial.share
    compared = study.compare(trial.label, trial.case.label)
    row: dict[str, Any] = {
        "case": trial.case.label,
        "operator": facts.operator,
        "count": facts.count,
        "contestant": trial.label,
        "verdict": trial.verdict,
        "reason": trial.reason if trial.verdict not in ("right", "unchecked") else "",
        "significant_bits": trial.significant_bits,
        "max_error": trial.max_error,
    }
    for quantity in QUANTITIES:
        summaries, interval = trial.summaries(quantity), trial.interval(quantity)
        if not summaries:
            continue
        row |= {
            quantity: trial.median(quantity),
            f"{quantity} low": None if interval is None else interval.low,
            f"{quantity} high": None if interval is None else interval.high,
            f"{quantity} basis": None if interval is None else interval.basis,
            f"{quantity} n": sum(summary.n for summary in summaries),
            f"{quantity} launches": len(summaries),
        }
    return row | {
        "setup": _seconds(trial.record.setup_ns),
        "first_call": _seconds(trial.record.first_call_ns),
        "flops": None if cost is None else cost.flops,
        "bytes": None if cost is None else cost.bytes,
        "flop_rate": trial.flop_rate,
        "byte_rate": trial.byte_rate,
        "roof_share": None if share is None else share.roof,
        "bound": None if share is None else share.bound,
        "base": study.base,
        "ratio": None if compared is None else compared.value,
        "ratio_interval": None if compared is None else compared.interval,
        "word": None if compared is None else compared.word,
        "stopped_because": list(dict.fromkeys(s.stopped_because for s in trial.record.samples if s.stopped_because)),
    }


def twin_word(found: Estimate) -> str:
    """What the A/A pair shows on a case: nothing is faster than itself, but two processes of it may differ.

    Example:
        >>> from deep_bench.measure.compare import Estimate
        >>> twin_word(Estimate("ratio", 10.0, 8.0, 0.8, (0.7, 0.9), 0.001, 0.99, "blocks", (9, 9)))
        'differs'
    """
    return "differs" if found.word in ("faster", "slower") else found.word


def _twins(study: Study) -> dict[str, Any] | None:
    """The A/A pair: its ratio over all common cases, and on each case."""
    if study.twin is None:
        return None
    cases = {case: study.compare_twins(case) for case in study.cases}
    whole = study.twins
    return {
        "contestant": study.twin.twin_of,
        "ratio": None if whole is None else whole.value,
        "ratio_interval": None if whole is None else whole.interval,
        "cases": {
            case: {
                "ratio": comparison.value,
                "ratio_interval": comparison.interval,
                "word": twin_word(comparison),
            }
            for case, comparison in cases.items()
            if comparison is not None
        },
    }


def _summary(study: Study, label: str) -> dict[str, Any]:
    system, total, speed = study.record[label], study.total(label), study.speed(label)
    verdicts: Sequence[str] = [trial.verdict for trial in study[label].values()]
    return {
        "framework": system.framework,
        "options": system.options,
        "facts": system.facts,
        "verdicts": {word: verdicts.count(word) for word in dict.fromkeys(verdicts)},
        "error": None if system.error is None else system.error.message,
        "total": None if total is None else total.value / 1e9,
        "total_basis": None if total is None else total.basis,
        "total_interval": None if total is None or total.interval is None else [end / 1e9 for end in total.interval],
        "flop_rate": study.flop_rate(label),
        "ratio": None if speed is None else speed.value,
        "ratio_interval": None if speed is None else speed.interval,
        "peak_memory_bytes": system.peak_memory_bytes,
    }


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9
