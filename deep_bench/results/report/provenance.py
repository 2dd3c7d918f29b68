"""Where the numbers of a report come from: the machine, how they were taken, all factors, the raw data, how to repeat it.

Records are attached where they are small, else named with their hashes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deep_bench.errors import DeepBenchError
from deep_bench.measure.environment import Environment, risks
from deep_bench.measure.units import in_bytes
from deep_bench.records.model import ArrayFile
from deep_bench.records.store import digest, file_beside
from deep_bench.results.report.model import (
    MOST_SOURCES,
    Attachment,
    Block,
    Cell,
    Code,
    Column,
    Heading,
    Lines,
    RecordSource,
    Table,
    Text,
    clean,
    clean_lines,
    enumeration,
    of_kinds,
    title_of,
)
from deep_bench.results.result import Result

_PASSING = frozenset({"load", "memory_available_bytes", "swap_used_bytes", "unknown"})
"""What differs from minute to minute on one machine."""


_MOST_ENVIRONMENTS = 8
_SHOWN_PACKAGES = {"mpi": "mpi4py"}
"""Framework to the package that it is part of, where that has another name."""


_ABSENT = {"cpu_limit": "none", "memory_limit_bytes": "none", "container": "none"}
"""What ``None`` means where it is no gap."""


def machine_line(e: Environment) -> str:
    """A machine in one line.

    Example:
        >>> machine_line(Environment(cpu_model="Zen 9", logical_cpus=8, cpus_allowed=[0, 1], memory_bytes=2**34))
        'Zen 9, 2 of 8 CPUs, 16 GiB of memory'
    """
    allowed, every = len(e.cpus_allowed or ()), e.logical_cpus
    cpus = f"{allowed} of {every} CPUs" if every and 0 < allowed < every else f"{every} CPUs" if every else ""
    gpus = [gpu.name for gpu in e.gpus or ()]
    memory = f"{in_bytes(e.memory_bytes, digits=3)} of memory" if e.memory_bytes else ""
    words = [
        e.cpu_model or "processor unknown", cpus, memory,
        enumeration([f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus)]), e.system or "",
        "virtual machine" if e.virtual_machine else "",
    ]  # fmt: skip
    return clean(", ".join(word for word in words if word))


def software(results: Sequence[Result]) -> str:
    """The versions of what was measured; where results do not tell them, of what was installed."""
    named = dict.fromkeys((r.labels.get("framework"), r.labels.get("version")) for r in results)
    versions = [f"{name} {version}" for name, version in named if name and version and name != "operator"]
    for name, version in named:
        if name and not version:
            package = _SHOWN_PACKAGES.get(name, name)
            versions += [f"{package} {e.packages[package]}" for e, _ in environments(results) if package in e.packages]
    versions += [e.python for e, _ in environments(results) if e.python]
    return enumeration(list(dict.fromkeys(versions)), 8) or "unknown"


def environments(results: Sequence[Result]) -> list[tuple[Environment, list[Result]]]:
    """Each environment once, with its results; what changes from minute to minute makes no other one of it."""
    groups: dict[str, tuple[Environment, list[Result]]] = {}
    for result in results:
        if result.environment is not None:
            key = result.environment.model_dump_json(exclude=set(_PASSING))
            groups.setdefault(key, (result.environment, []))[1].append(result)
    return list(groups.values())


def machine_blocks(results: Sequence[Result]) -> list[Block]:
    """A table of facts for each environment, and what endangers times there."""
    machines = environments(results)
    parts: list[Block] = [Heading("Where it was measured")]
    for number, (e, members) in enumerate(machines[:_MOST_ENVIRONMENTS], 1):
        files = len({result.file for result in members})
        of = "" if len(machines) == 1 else f" {number} of {len(machines)}, {files} record{'s' * (files != 1)}"
        caption, columns = f"Environment{of}: {machine_line(e)}", (Column("fact"), Column("value"))
        parts.append(Table(caption, columns, tuple(machine_facts(e).items()), folded=True, wordy=True))
        if dangers := [clean(str(risk)) for risk in risks(e) if risk.name != "MPI"]:
            parts.append(Lines(tuple(dangers)))
    if len(machines) > _MOST_ENVIRONMENTS:
        parts.append(Lines((f"{len(machines) - _MOST_ENVIRONMENTS} more environments are in the records.",)))
    return parts


def machine_facts(e: Environment) -> dict[str, str]:
    """Name to value of every fact; what is unknown says why.

    Example:
        >>> found = machine_facts(Environment(smt=True, packages={"numpy": "2.4"}, unknown={"governor": "no such file"}))
        >>> found["smt"], found["packages: numpy"], found["governor"], found["turbo"]
        ('yes', '2.4', 'unknown: no such file', 'unknown')
    """
    texts: dict[str, str] = {}
    for name, value in e.model_dump(mode="json").items():
        if name == "unknown":
            continue
        shown = name.replace("_", " ")
        if value is None:
            reason = e.unknown.get(name)
            texts[shown] = f"unknown: {reason}" if reason else _ABSENT.get(name, "unknown")
        else:
            texts |= _fact_lines(shown, value)
    return {clean(name, 120): clean(text) for name, text in texts.items()}


def _fact_lines(name: str, value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {f"{name}: {key}": _plain_fact(entry) for key, entry in value.items()} or {name: "none"}
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return {f"{name} {number}": ", ".join(f"{k} {_plain_fact(v)}" for k, v in entry.items() if v is not None)
                for number, entry in enumerate(value, 1)}  # fmt: skip
    if name.endswith(" bytes") and isinstance(value, int):
        return {name.removesuffix(" bytes"): in_bytes(value)}
    return {name: _plain_fact(value)}


def _plain_fact(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(_plain_fact, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


_METHODS = {
    "network": (
        "wall time of a call that ends when the device has finished, warmed up until steady; systems took turns in random "
        "order, in blocks of at least 50 ms and ten calls, each in a process of its own that stood still while others were "
        "timed; converting from and to NumPy is not in the time. Correctness: each node alone against a reference in higher "
        "precision, judged by whether rounding could explain the difference."
    ),
    "operators": (
        "wall time of a call on the system's own arrays, ended by synchronising; contestants took turns in random order, "
        "each in a process of its own. Correctness: against a reference in higher precision, judged by whether rounding "
        "could explain the difference."
    ),
    "communication": (
        "a barrier, then the operation, on each rank; the largest time over the ranks of each repetition; the median of "
        "these. Latency is half of a round trip. Correctness: all elements on all ranks, before and after the timing."
    ),
    "training": (
        "the clock starts when the data are first touched; evaluations count, preparing does not; each run is one sample, "
        "and one that misses the target counts as having gone on for so long without reaching it."
    ),
    "scaling": (
        "predicted, not measured: the messages of few ranks, generalised, cost what closed LogGP formulas say; what a rank "
        "computes was measured on one."
    ),
    "mlperf": "by MLPerf's own load generator or logs, under its rules; its own figures are in the records beside ours.",
}
_SHARED_METHOD = (
    "Medians, with 95 % intervals by order statistics: over launches of fresh processes or runs where there are several, "
    "else over blocks where samples are correlated, else over samples; the last two see nothing of what differs between "
    "launches. No sample was dropped without a word: where those that were preempted do not count, the remark of the "
    "figure and a line below the table say so, and the plot has them as strokes. Calls of the warm-up are no samples."
)
_IN_PROCESS = "Some systems were measured in one process, where they could disturb each other."


def method_blocks(results: Sequence[Result], sources: Sequence[RecordSource]) -> list[Block]:
    """The lines, and what all figures share."""
    lines = [f"{title_of(kind)}: {_METHODS[kind]}" for kind in of_kinds(results) if kind in _METHODS]
    lines.append(_SHARED_METHOD)
    if any(source.value("in_process") for source in sources):
        lines.append(_IN_PROCESS)
    return [Lines(tuple(lines))]


_MOST_VALUES = 12
_MOST_NOTES = 40


def factor_blocks(results: Sequence[Result]) -> list[Block]:
    """A table of all labels of each kind of record, and what the records note."""
    parts: list[Block] = []
    for kind, kind_results in of_kinds(results).items():
        names = dict.fromkeys(name for result in kind_results for name in result.labels if name != "kind")
        rows = []
        for name in names:
            values = dict.fromkeys(r.labels[name] for r in kind_results if name in r.labels)
            without = sum(name not in result.labels for result in kind_results)
            beside = f"; {without} results have none" if without else ""
            listed = enumeration([clean(value, 160) for value in values], _MOST_VALUES)
            rows.append((clean(name, 120), str(len(values)), f"{listed}{beside}"))
        columns = (Column("factor"), Column("values", True), Column("which"))
        parts.append(Table(f"{title_of(kind)}: factors", columns, tuple(rows), folded=True, wordy=True))
    notes = list(dict.fromkeys(clean(note) for result in results for note in result.notes))
    if notes:
        extra = len(notes) - _MOST_NOTES
        parts.append(Heading("What the records note"))
        parts.append(
            Lines((*notes[:_MOST_NOTES], *([f"and {extra} more notes, which are in the records"] if extra > 0 else [])))
        )
    return parts


LARGEST_FILE = 2**20
"""Larger files are not attached."""


ALL_FILES = 3 * 2**20
"""So many bytes are attached in all, the small files first."""


_MOST_FILES = 2_500
_LARGEST_ARRAYS = 4 * 2**30


def data_blocks(files: Sequence[Path]) -> list[Block]:
    """A table of all files with their hashes, and those that there is room for."""
    every = list(dict.fromkeys(file for record in files[:_MOST_FILES] for file in (record, *_files_beside(record))))
    chosen = _attached_files(every)
    rows: list[tuple[Cell, ...]] = []
    for file in every:
        size = _file_size(file)
        try:
            sha256 = digest(file)
            attachment = Attachment(clean(file.name, 160), file.read_bytes()) if file in chosen else None
            data: Cell = attachment or "not attached: large"
        except OSError as error:
            sha256, data = "–", f"cannot be read any more: {error.strerror}"
        rows.append((clean(file.name, 160), "–" if size is None else str(size), sha256, data))
    columns = (Column("file"), Column("bytes", True), Column("SHA-256"), Column("data"))
    count = sum(isinstance(row[3], Attachment) for row in rows)
    parts: list[Block] = [
        Text(
            f"{count} of {len(every)} files are attached; all raw samples are in them, and everything in this report can be "
            "computed from them. Long arrays lie in HDF5 files beside their records."
        ),
        Table("Records", columns, tuple(rows), folded=len(rows) > 12),
    ]
    if len(files) > _MOST_FILES:
        parts.append(Text(f"{len(files) - _MOST_FILES} more records are not listed."))
    return parts


def _files_beside(record: Path) -> list[Path]:
    """The file of arrays of a record; a name that leads elsewhere, or a file that was altered, is none."""
    try:
        if record.stat().st_size > 8 * LARGEST_FILE:
            return []
        arrays = json.loads(record.read_text(encoding="utf-8")).get("arrays")
        if not arrays or record.with_name(arrays["name"]).is_symlink():
            return []
        return [file_beside(record, ArrayFile.model_validate(arrays), "its arrays", _LARGEST_ARRAYS)]
    except (OSError, ValueError, AttributeError, KeyError, TypeError, DeepBenchError):
        return []


def _attached_files(files: Sequence[Path]) -> set[Path]:
    """The files that are attached: the smallest, as long as there is room."""
    sizes = {file: _file_size(file) for file in files}
    selection: set[Path] = set()
    room = ALL_FILES
    for file, size in sorted(sizes.items(), key=lambda pair: (pair[1] is None, pair[1] or 0, str(pair[0]))):
        if size is not None and size <= min(LARGEST_FILE, room):
            selection.add(file)
            room -= size
    return selection


def _file_size(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None


_MOST_COMMANDS = 25
_LONGEST_RECIPE = 20_000
_LONGEST_COMMAND = 4_000


def repetition_blocks(sources: Sequence[RecordSource], files: int) -> list[Block]:
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
    for source in list(reversed(shown.values()))[:_MOST_COMMANDS]:
        title = f"{source.created:%Y-%m-%d %H:%M} {source.kind}: {clean(source.file.name, 120)}"
        parts.append(Heading(title))
        if source.record is None:
            parts.append(Text(f"The record could not be read again: {clean(source.fault)}"))
            continue
        command, identity = shell_line(source.command), tuple(record_identity(source).items())
        parts.append(Code(command) if command else Text("The command is not in the record."))
        parts.append(Table("Identity", (Column("what"), Column("which")), identity, wordy=True))
        parts += _recipe(source.value("recipe"))
    remaining = max(len(shown) - _MOST_COMMANDS, 0)
    if remaining or files > MOST_SOURCES:
        parts.append(
            Text(
                f"{max(files - min(len(shown), _MOST_COMMANDS), remaining)} more records have their "
                "commands and recipes in them."
            )
        )
    return parts


def shell_line(command: Sequence[str]) -> str:
    """A command as a shell takes it: no word of a stranger's record does more than be a word.

    Example:
        >>> shell_line(["/opt/venv/bin/deep-bench", "run", "my net.onnx; rm -rf /"])
        "deep-bench run 'my net.onnx; rm -rf /'"
        >>> shell_line([])
        ''
    """
    if not command:
        return ""
    first = Path(command[0])
    program = "deep-bench" if first.name in ("deep-bench", "__main__.py") else str(first)
    return clean(shlex.join([program, *command[1:]]), _LONGEST_COMMAND)


def record_identity(source: RecordSource) -> dict[str, str]:
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


def _hashes(source: RecordSource) -> list[tuple[str, str]]:
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
