"""How to repeat it: commands, recipes, hashes and versions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deep_bench.results.report.model import Block, Code, Column, Heading, Table, Text, clean, clean_lines
from deep_bench.results.report.sources import MOST, Source

_MOST = 25
_LONGEST_RECIPE = 20_000
_LONGEST_COMMAND = 4_000


def blocks(sources: Sequence[Source], files: int) -> list[Block]:
    """What to type, and what must be the same.

    Args:
        sources: The records that were read again.
        files: How many there are in all.
    """
    parts: list[Block] = [
        Text(
            "deep-bench bundle RECORD packs what is needed into one archive: recipe, networks, data or their hashes, "
            "versions and the record; deep-bench repeat does it again and says whether it agrees."
        )
    ]
    shown = {tuple(source.command): source for source in reversed(sources)}
    for source in list(reversed(shown.values()))[:_MOST]:
        parts += _one(source)
    remaining = max(len(shown) - _MOST, 0)
    if remaining or files > MOST:
        parts.append(
            Text(f"{max(files - min(len(shown), _MOST), remaining)} more records have their commands and recipes in them.")
        )
    return parts


def _one(source: Source) -> list[Block]:
    title = f"{source.created:%Y-%m-%d %H:%M} {source.kind}: {clean(source.file.name, 120)}"
    if source.record is None:
        return [Heading(title), Text(f"The record could not be read again: {clean(source.fault)}")]
    command = typed(source.command)
    return [
        Heading(title),
        Code(command) if command else Text("The command is not in the record."),
        Table("Identity", (Column("what"), Column("which")), tuple(identity(source).items()), wordy=True),
        *_recipe(source.value("recipe")),
    ]


def typed(command: Sequence[str]) -> str:
    """A command as a shell takes it: no word of a stranger's record does more than be a word.

    Example:
        >>> typed(["/opt/venv/bin/deep-bench", "run", "my net.onnx; rm -rf /"])
        "deep-bench run 'my net.onnx; rm -rf /'"
        >>> typed([])
        ''
    """
    if not command:
        return ""
    first = Path(command[0])
    program = "deep-bench" if first.name in ("deep-bench", "__main__.py") else str(first)
    return clean(shlex.join([program, *command[1:]]), _LONGEST_COMMAND)


def identity(source: Source) -> dict[str, str]:
    """Hashes, seeds and versions of a record."""
    facts: dict[str, str] = {"deep_bench": clean(source.value("deep_bench") or "unknown")}
    facts |= {clean(name, 120): clean(value) for name, value in source.results[0].labels.items() if name.endswith("sha256")}
    for name, value in _hashes(source):
        facts[clean(name, 120)] = clean(value)
    seeds = getattr(source.value("recipe"), "seeds", None)
    if seeds:
        facts["seeds"] = clean(", ".join(f"{name} {seed}" for name, seed in seeds.items()))
    e = source.results[0].environment
    if e is not None:
        facts |= {"Python": clean(e.python or "unknown")}
        facts["packages"] = clean(", ".join(f"{name} {version}" for name, version in e.packages.items()) or "unknown")
        if e.git:
            facts["git"] = clean(f"{e.git.get('commit')}{', with changes' if e.git.get('dirty') else ''}")
    return facts


def _hashes(source: Source) -> list[tuple[str, str]]:
    network, data = source.value("network"), source.value("data")
    hashes: dict[str, str] = {}
    for facts in [network, *(run.network for run in source.value("runs") or () if hasattr(run, "network"))]:
        if getattr(facts, "sha256", None):
            hashes[f"network {facts.name}"] = f"SHA-256 {facts.sha256}"
    if getattr(data, "sha256", None) is not None:
        hashes["data"] = f"{data.source}, seed {data.seed}" if data.seed is not None else data.source
        hashes |= {f"input {name}": f"SHA-256 {value}" for name, value in list(data.sha256.items())[:20]}
    suite = source.value("suite")
    if getattr(suite, "name", None):
        hashes["suite"] = f"{suite.name}, {len(suite.cases)} cases{f'; {suite.source}' if suite.source else ''}"
    for run in (source.value("runs") or ())[:1]:
        hashes |= {
            f"data, {part}": json.dumps(facts, ensure_ascii=False) for part, facts in getattr(run, "data", {}).items()
        }
    return list(hashes.items())


def _recipe(recipe: Any) -> list[Block]:
    if recipe is None:
        return []
    plain = recipe.model_dump(mode="json") if hasattr(recipe, "model_dump") else recipe
    text = json.dumps(plain, indent=1, ensure_ascii=False, default=str)
    if text in ("{}", "null") or not plain:
        return []
    if len(text) > _LONGEST_RECIPE:
        text = f"{text[:_LONGEST_RECIPE]}\n… {len(text) - _LONGEST_RECIPE} characters more are in the record"
    return [Code(clean_lines(text), "the recipe, all defaults written out")]
