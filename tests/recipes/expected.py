"""What real results hold, against what recipes are told that they can hold."""

from __future__ import annotations

from pathlib import Path

from deep_bench.recipes.acceptance import is_label, labels_of
from deep_bench.recipes.run import CellOutcome


def assert_expected(outcome: CellOutcome) -> None:
    """Whether each figure, label and verdict of a cell that is done is one that a condition may name."""
    figures, labels = outcome.cell.fields.figures(outcome.cell, Path.cwd()), labels_of(outcome.cell)
    assert outcome.results
    for result in outcome.results:
        assert {name: (one.unit, one.direction) for name, one in result.figures.items()}.items() <= figures.items()
        assert [name for name in result.labels if not is_label(name, labels)] == []
        assert result.outcome in outcome.cell.fields.verdicts
        if result.verdict is not None and result.verdict.significant_bits is not None:
            assert outcome.cell.fields.has_bits
        for name, value in result.labels.items():
            known = labels.get(name)
            if name not in outcome.cell.factors:  # whose label says what became of it, as a class has its name
                assert known is None or value in known, (name, value, known)
