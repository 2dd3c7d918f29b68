"""The pages on recipes: what they show is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from deep_bench.cli.recipe import command
from deep_bench.recipes import READY, load_experiment
from deep_bench.recipes.faults import names
from deep_bench.recipes.levels import LEVELS, CaseFields
from deep_bench.recipes.page import described, page
from deep_bench.recipes.recipe import CellLimits, ExperimentModel, Slurm
from deep_bench.yaml_text import RecipePart

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "recipes.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("model", [*LEVELS.values(), CaseFields, ExperimentModel, CellLimits, Slurm])
def test_every_field_is_described(model: type[RecipePart]) -> None:
    assert sorted(described(model)) == sorted(names(model))


def test_the_page_of_fields_is_up_to_date() -> None:
    published = (DOCS / "recipe-fields.md").read_text(encoding="utf-8")
    assert published == page(), "python -m deep_bench.recipes.page > docs/recipe-fields.md"


def test_the_recipes_of_the_tutorial_are_sound(tmp_path: Path) -> None:
    recipes = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(recipes) > 4
    for number, text in enumerate(recipes):
        file = tmp_path / f"recipe{number}.yaml"
        file.write_text(text)
        assert load_experiment(file, allow_code="environments" in text).cells


def test_the_tutorial_names_every_recipe_that_ships() -> None:
    assert [name for name in READY if f"`{name}`" not in TEXT] == []


def test_the_commands_of_the_tutorial_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("level: network\nfixed: {network: digits-cnn}\nmatrix: {batch: [1, 64]}\n")
    lines = re.findall(r"^\$ deep-bench recipe (.*)\n((?:[^$`].*\n)*)", TEXT, re.MULTILINE)
    assert len(lines) > 8
    assert any(shown for _, shown in lines)
    for line, shown in lines:
        words = shlex.split(line)
        if words[0] in ("status", "resume"):
            continue
        ended = CliRunner().invoke(command, [*words, *(["--dry-run"] if words[0] == "run" else [])])
        assert ended.exit_code == 0, (line, ended.output, ended.exception)
        assert not shown or ended.output == shown, line
