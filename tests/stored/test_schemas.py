"""The JSON schemas of records and other files: what a program that reads or writes them relies on.

Names of types, titles and descriptions say nothing about a file: they are left out. Types are written where they are used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deep_bench as db
from tests.stored.stored import Texts, among_records, public, stored

ROOT = Path(__file__).parents[2]


def _only(folder: str) -> Path:
    return next(Path(folder).glob("2026*.json"))


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "bundle": public("deep_bench.repeating", "Manifest").model_json_schema,
    "measurement": lambda: type(db.Result.load(_only("network")).record).model_json_schema(),
    "mlperf": public("deep_bench.mlperf.inference", "InferenceRecord").model_json_schema,
    "roofline": public("deep_bench.measure.roofline", "Roofline").model_json_schema,
    "timeline": lambda: type(
        public("deep_bench.training.timeline", "load")("files/timeline.json").record
    ).model_json_schema(),
    "training": lambda: type(db.training.Runs.load(_only("training/one")).record).model_json_schema(),
}


def _meaning(schema: Any, types: dict[str, Any]) -> Any:
    """A schema with its types in their places, without names and words for people."""
    if isinstance(schema, list):
        return [_meaning(part, types) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        rest = {name: part for name, part in schema.items() if name != "$ref"}
        return {**_meaning(types[schema["$ref"].rsplit("/", 1)[-1]], types), **_meaning(rest, types)}
    found = {}
    for name, part in schema.items():
        if name == "properties":
            found[name] = {field: _meaning(inner, types) for field, inner in part.items()}
        elif name in ("required", "enum"):
            found[name] = sorted(part, key=str)
        elif name not in ("$defs", "title", "description"):
            found[name] = _meaning(part, types)
    return found


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(_meaning(schema, schema.get("$defs", {})), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def texts() -> Texts:
    """The schemas as they are now."""
    return {f"schemas/{name}.json": lambda make=make: _text(make()) for name, make in SCHEMAS.items()}


@pytest.fixture(autouse=True)
def _records(tmp_path: Path) -> Iterator[None]:
    with among_records(tmp_path / "records"):
        yield


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_as_stored(name: str) -> None:
    assert _text(SCHEMAS[name]()) == stored(f"schemas/{name}.json")


def test_published_schema_is_as_stored() -> None:
    published = json.loads((ROOT / "docs" / "record.schema.json").read_text(encoding="utf-8"))
    assert _text(published) == stored("schemas/measurement.json")
