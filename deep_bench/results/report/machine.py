"""Where results were taken: the machine in a line, and all facts of each environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deep_bench.measure.environment import Environment
from deep_bench.measure.risks import risks
from deep_bench.measure.units import in_bytes
from deep_bench.results.report.model import Block, Column, Heading, Lines, Table, clean
from deep_bench.results.report.naming import listed
from deep_bench.results.result import Result

_PASSING = frozenset({"load", "memory_available_bytes", "swap_used_bytes", "unknown"})
"""What differs from minute to minute on one machine."""

_MOST = 8
_PACKAGES = {"mpi": "mpi4py"}
"""Framework to the package that it is part of, where that has another name."""
_ABSENT = {"cpu_limit": "none", "memory_limit_bytes": "none", "container": "none"}
"""What ``None`` means where it is no gap."""


def in_a_line(e: Environment) -> str:
    """A machine in one line.

    Example:
        >>> in_a_line(Environment(cpu_model="Zen 9", logical_cpus=8, cpus_allowed=[0, 1], memory_bytes=2**34))
        'Zen 9, 2 of 8 CPUs, 16 GiB of memory'
    """
    allowed, every = len(e.cpus_allowed or ()), e.logical_cpus
    cpus = f"{allowed} of {every} CPUs" if every and 0 < allowed < every else f"{every} CPUs" if every else ""
    gpus = [gpu.name for gpu in e.gpus or ()]
    memory = f"{in_bytes(e.memory_bytes, digits=3)} of memory" if e.memory_bytes else ""
    words = [
        e.cpu_model or "processor unknown", cpus, memory,
        listed([f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus)]), e.system or "",
        "virtual machine" if e.virtual_machine else "",
    ]  # fmt: skip
    return clean(", ".join(word for word in words if word))


def software(results: Sequence[Result]) -> str:
    """The versions of what was measured; where results do not tell them, of what was installed."""
    named = dict.fromkeys((r.labels.get("framework"), r.labels.get("version")) for r in results)
    versions = [f"{name} {version}" for name, version in named if name and version and name != "operator"]
    for name, version in named:
        if name and not version:
            package = _PACKAGES.get(name, name)
            versions += [f"{package} {e.packages[package]}" for e, _ in environments(results) if package in e.packages]
    versions += [e.python for e, _ in environments(results) if e.python]
    return listed(list(dict.fromkeys(versions)), 8) or "unknown"


def environments(results: Sequence[Result]) -> list[tuple[Environment, list[Result]]]:
    """Each environment once, with its results; what changes from minute to minute makes no other one of it."""
    groups: dict[str, tuple[Environment, list[Result]]] = {}
    for result in results:
        if result.environment is not None:
            key = result.environment.model_dump_json(exclude=set(_PASSING))
            groups.setdefault(key, (result.environment, []))[1].append(result)
    return list(groups.values())


def blocks(results: Sequence[Result]) -> list[Block]:
    """A table of facts for each environment, and what endangers times there."""
    machines = environments(results)
    parts: list[Block] = [Heading("Where it was measured")]
    for number, (e, members) in enumerate(machines[:_MOST], 1):
        files = len({result.file for result in members})
        of = "" if len(machines) == 1 else f" {number} of {len(machines)}, {files} record{'s' * (files != 1)}"
        rows = tuple((name, text) for name, text in facts(e).items())
        parts.append(
            Table(f"Environment{of}: {in_a_line(e)}", (Column("fact"), Column("value")), rows, folded=True, wordy=True)
        )
        if dangers := [clean(str(risk)) for risk in risks(e) if risk.name != "MPI"]:
            parts.append(Lines(tuple(dangers)))
    if len(machines) > _MOST:
        parts.append(Lines((f"{len(machines) - _MOST} more environments are in the records.",)))
    return parts


def facts(e: Environment) -> dict[str, str]:
    """Name to value of every fact; what is unknown says why.

    Example:
        >>> found = facts(Environment(smt=True, packages={"numpy": "2.4"}, unknown={"governor": "no such file"}))
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
            texts |= _told(shown, value)
    return {clean(name, 120): clean(text) for name, text in texts.items()}


def _told(name: str, value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {f"{name}: {key}": _plain(entry) for key, entry in value.items()} or {name: "none"}
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return {f"{name} {number}": ", ".join(f"{k} {_plain(v)}" for k, v in entry.items() if v is not None)
                for number, entry in enumerate(value, 1)}  # fmt: skip
    if name.endswith(" bytes") and isinstance(value, int):
        return {name.removesuffix(" bytes"): in_bytes(value)}
    return {name: _plain(value)}


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(_plain, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
