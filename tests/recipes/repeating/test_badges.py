"""Badges, each a list of checks with its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from deep_bench.cli.badges import command
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.measure.environment import Environment
from deep_bench.recipes.badges import Badge, BadgeCheck, Claims, badges
from deep_bench.recipes.bundles import bundle
from deep_bench.recipes.manifest import MANIFEST, Manifest, unpack
from deep_bench.recipes.repetition import REPETITION_FILE, FigureRecord, RepetitionRecord, read_repetition
from deep_bench.records.store import digest
from tests.recipes.repeating.conftest import WORDS


def repetition(folder: Path, there: Path, *, host: str = "elsewhere", ratio: float = 1.01, **more: object) -> Path:
    """What a repetition of a bundle might have left."""
    figure = FigureRecord(
        name="small", metric="forward", unit="s", before=1.0, after=ratio, scale="ratio", value=ratio, word="x"
    )
    facts: dict[str, object] = {"verdict": "repeated", "clean": True, "status": 0, **more}
    record = RepetitionRecord.model_validate(
        {
            "deep_bench": "0.1.0",
            "bundle": digest(there / MANIFEST),
            "command": ["deep-bench"],
            "reasons": [],
            "figures": [figure],
            "environment": Environment(hostname=host, cpu_model="A CPU"),
            **facts,
        }
    )
    folder.mkdir()
    (folder / REPETITION_FILE).write_text(record.model_dump_json())
    return folder


@pytest.fixture
def there(packed: tuple[Path, Manifest], tmp_path: Path) -> Path:
    unpack(packed[0], tmp_path / "there")
    return tmp_path / "there"


def by_name(found: list[Badge]) -> dict[str, Badge]:
    return {badge.name: badge for badge in found}


def test_without_evidence_nothing_is_passed_that_needs_some(packed: tuple[Path, Manifest]) -> None:
    found = by_name(badges(packed[0]))
    states = {name: badge.state for name, badge in found.items()}
    assert states == {
        "artifacts available": "fail",
        "artifacts evaluated - functional": "unknown",
        "artifacts evaluated - reusable": "unknown",
        "results reproduced": "unknown",
        "results replicated": "unknown",
        "submission available": "fail",
        "submission functional / repeatable": "fail",
    }
    failed = [check.reason for check in found["artifacts available"].checks if check.state == "fail"]
    assert failed == ["no archive and no DOI were named"]
    unknown = [check.name for check in found["artifacts evaluated - functional"].checks if check.state == "unknown"]
    assert unknown == ["runs in a clean environment"]


def test_with_evidence(there: Path, tmp_path: Path) -> None:
    kept = [repetition(tmp_path / f"r{i}", there) for i in range(3)]
    found = by_name(badges(there, repetitions=kept, claims=Claims(doi="10.5281/zenodo.1234567")))
    assert found["artifacts evaluated - functional"].state == "pass"
    assert found["artifacts evaluated - reusable"].state == "pass"
    assert found["artifacts available"].state == "unknown"  # a DOI is claimed, and verified by nobody
    assert found["results reproduced"].state == "unknown"
    checks = {check.name: check for check in found["submission functional / repeatable"].checks}
    assert checks["3 reruns within 5 %"].state == "pass"
    assert (
        "A CPU (elsewhere)"
        in checks.get("a second backend or environment", found["artifacts evaluated - reusable"].checks[-1]).reason
    )


@pytest.mark.parametrize(
    ("change", "badge", "reason"),
    [
        ({"verdict": "not repeated"}, "artifacts evaluated - functional", "1 tries in a clean environment: not repeated"),
        ({"clean": False}, "artifacts evaluated - functional", "it was not repeated in a clean environment yet"),
        ({"ratio": 1.2}, "submission functional / repeatable", "more than 5 % from the first: small forward"),
    ],
)
def test_bad_evidence(change: dict[str, object], badge: str, reason: str, there: Path, tmp_path: Path) -> None:
    kept = [repetition(tmp_path / "r", there, **change)]  # type: ignore[arg-type]
    found = by_name(badges(there, repetitions=kept, reruns=1))[badge]
    assert found.state != "pass"
    assert any(reason in check.reason for check in found.checks if check.state != "pass")


def test_what_only_the_author_has(place: Path, tmp_path: Path) -> None:
    words = ["deep-bench", *WORDS, "--where", "/home/me/secret", "--x=/tmp/y"]
    bundle([place / "mine"], tmp_path / "b.zip", command=words, folder=place)
    found = by_name(badges(tmp_path / "b.zip"))
    reasons = {check.name: check for check in found["artifacts evaluated - functional"].checks}
    assert reasons["exercisable: one command, no paths or variables of the author's"].reason == (
        "it names places of one machine: /home/me/secret, --x=/tmp/y"
    )
    licence = next(check for check in found["artifacts available"].checks if "licence" in check.name)
    assert (licence.state, "--licence" in licence.reason) == ("fail", True)


def test_claims_and_files_that_are_none(there: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="the DOI 'zenodo'"):
        Claims(doi="zenodo")
    with pytest.raises(InvalidRecord, match=r"repetition\.json"):
        read_repetition(there)
    (there / "README.md").write_text("other")
    with pytest.raises(InvalidRecord, match="was altered"):
        badges(there)


def test_a_repetition_of_another_bundle_is_refused(there: Path, tmp_path: Path) -> None:
    good, other = repetition(tmp_path / "r", there), repetition(tmp_path / "other", there, bundle="0" * 64)
    with pytest.raises(InvalidRecord, match="other is a repetition of another bundle") as error:
        badges(there, repetitions=[good, other])
    assert "0" * 64 in error.value.came
    assert digest(there / MANIFEST) in error.value.expected


def test_variables_that_a_repetition_is_not_given(there: Path, tmp_path: Path) -> None:
    """Whether a run needs its PYTHONPATH, a clean repetition without it tells."""
    manifest = there / MANIFEST
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"variables": {"PYTHONPATH": "/mine", "OMP_NUM_THREADS": "1"}}))

    def check(*kept: Path) -> BadgeCheck:
        functional = by_name(badges(there, repetitions=kept))["artifacts evaluated - functional"]
        return next(check for check in functional.checks if check.name.startswith("exercisable"))

    assert (check().state, "is not given: PYTHONPATH;" in check().reason) == ("unknown", True)
    good, bad = repetition(tmp_path / "r", there), repetition(tmp_path / "bad", there, verdict="not repeated")
    assert check(bad).state == "unknown"
    assert (check(good).state, "did without PYTHONPATH" in check(good).reason) == ("pass", True)


def test_from_the_command_line(there: Path, tmp_path: Path) -> None:
    kept = repetition(tmp_path / "r", there)
    found = CliRunner().invoke(command, [str(there), "--repeated", str(kept)])
    assert found.exit_code == 0, found.output
    assert "+ artifacts evaluated - functional: pass\n" in found.stdout
    assert "    - in an archive, with a DOI: no archive and no DOI were named\n" in found.stdout
    told = json.loads(CliRunner().invoke(command, [str(there), "--json"]).stdout)
    assert [badge["name"] for badge in told][:2] == ["artifacts available", "artifacts evaluated - functional"]
