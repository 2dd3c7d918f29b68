"""The small recipes that ship run here, as they are, and what they find is accepted.

`test_running` runs one of them whole in each test run, and `test_recipes` sees that all of them are sound.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deep_bench.recipes import READY, load_experiment, run_experiment
from tests.recipes.expected import assert_expected

VARIABLES = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMP_NUM_THREADS": "1",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in READY if name.startswith("small-")])
def test_a_small_recipe_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    outcome = run_experiment(load_experiment(name), tmp_path / "out", progress=False)
    assert [cell.state.state for cell in outcome.cells] == ["done"] * len(outcome.cells), str(outcome)
    for cell in outcome.cells:
        assert_expected(cell)
    factors = [name for name in outcome.store.experiment.factors if name in outcome.results.labels()]
    assert factors or {f"factor.{name}" for name in outcome.store.experiment.factors} & set(outcome.results.labels())
    timed = {"time to target", "accuracy"}  # of a machine that others use, too
    assert [str(one) for cell in outcome.cells for one in cell.missed if one.rule.figure not in timed] == []
