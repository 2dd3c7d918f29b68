"""Settings are stated once: keywords of public functions, options and fields of recipes agree; a new one is all of these.

And a new verb is a module with a command, and a line in the table of verbs.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner
from pydantic import Field

import deep_bench as db
from deep_bench import cli
from deep_bench.cli import operators, run
from deep_bench.cli.verb import SECONDS, Verb, settings_options
from deep_bench.distributed.collectives.settings import CollectiveSettings
from deep_bench.errors import InvalidArgument
from deep_bench.operators.studies.settings import OperatorSettings, StudySettings
from deep_bench.recipes.cell import CommandTask, LevelFields
from deep_bench.recipes.levels import CommunicationFields, NetworkFields, OperatorsFields
from deep_bench.study.settings import Count, Keywords, MeasurementSettings, NetworkSettings, Seconds, SettingsModel

CASES = [
    (NetworkSettings, db.run, run.command),
    (StudySettings, db.operators.study, operators.command),
]


@pytest.mark.parametrize(("settings", "function", "verb"), CASES)
def test_keywords_and_options_have_the_defaults_that_are_stated(
    settings: type[MeasurementSettings], function: Callable[..., Any], verb: click.Command
) -> None:
    keywords = inspect.signature(function).parameters
    options = {str(option.name): option for option in verb.params}
    context = click.Context(verb)
    for name, setting in settings.model_fields.items():
        assert keywords[name].default == setting.default, name
        assert type(keywords[name].default) is type(setting.default), name
        if name != "dispatch":  # of Python alone
            assert options[name].get_default(context) is not None, name
            assert options[name].type_cast_value(context, options[name].get_default(context)) == setting.default, name


@pytest.mark.parametrize(
    ("level", "settings"),
    [
        (NetworkFields, MeasurementSettings),
        (OperatorsFields, OperatorSettings),
        (CommunicationFields, CollectiveSettings),
    ],
)
def test_recipes_have_the_fields_that_are_stated(level: type[LevelFields], settings: type[SettingsModel]) -> None:
    for name, setting in settings.model_fields.items():
        assert level.model_fields[name].default == setting.default
        assert level.model_fields[name].metadata == setting.metadata


class Toy(MeasurementSettings):
    """Settings with some more."""

    rounds: Count = Field(default=3, description="So many times.")
    pause: Seconds = Field(default=90.0, description="Between rounds.")
    shuffled: bool = Field(default=True, description="In the order of writing.")


class ToyKeywords(Keywords, Toy):
    """The same as keywords."""


class ToyFields(LevelFields, Toy):
    """The same as fields of a recipe."""

    def check_names(self, *_: Any) -> None:
        """Nothing is named."""

    def figures(self, *_: Any) -> dict[str, Any]:
        """None."""
        return {}

    def options(self, task: CommandTask) -> Any:
        """All that is stated."""
        yield from self.settings_of(Toy)


def test_a_setting_that_is_added_is_an_option_a_field_and_a_keyword() -> None:
    @click.command("toy", cls=Verb)
    @settings_options(Toy)
    def toy(**options: Any) -> None:
        click.echo(ToyKeywords(**options).model_dump_json(include={"rounds", "pause", "shuffled"}))

    helped = CliRunner().invoke(toy, ["--help"]).output
    for words in (
        "--rounds INTEGER RANGE",
        "So many times.  [default: 3; x>=1]",
        "[default: 90s]",
        "--no-shuffled",
        "In the order",
    ):
        assert words in helped
    written = ToyFields.model_validate({"pause": "2min", "shuffled": False})
    words = list(written.options(None))  # type: ignore[arg-type]
    assert words[-3:] == ["--rounds=3", "--pause=120", "--no-shuffled"]
    assert CliRunner().invoke(toy, words).output == '{"rounds":3,"pause":120.0,"shuffled":false}\n'
    with pytest.raises(InvalidArgument, match=r"rounds=0\nExpected: a whole number of at least 1"):
        ToyKeywords(rounds=0)


def test_a_verb_that_is_added_is_listed_runs_and_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command("toy", cls=Verb)
    @click.option("--after", type=SECONDS, default="2s", show_default=True)
    @settings_options(Toy, "rounds", only=True)
    def command(after: float, rounds: int) -> None:
        """Count."""
        if rounds > 9:
            raise InvalidArgument(f"rounds={rounds}", "at most 9")
        click.echo(f"{rounds} after {after}")

    module = ModuleType("deep_bench.cli.toy_count")
    module.command = command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli._VERBS, "toy-count", "Count.")

    def ended(*words: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as end:
            cli.main(list(words))
        captured = capsys.readouterr()
        return end.value.code, captured.out + captured.err

    assert "toy-count Count." in " ".join(ended("--help")[1].split())
    assert ended("toy-count", "--after", "1m", "--rounds=2") == (0, "2 after 60.0\n")
    assert ended("toy-count", "--after", "soon")[0] == ended("toy-count", "--after", "1", "--after", "2")[0] == 2
    status, text = ended("toy-count", "--rounds=10", "--debug")
    assert status == 2
    assert "Traceback" in text
    assert "deep-bench: rounds=10\nExpected: at most 9" in text
