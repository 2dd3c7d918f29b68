"""Measuring the roofs of this machine, once; then they are read from a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import JsonValue, ValidationError

from deep_bench.errors import InvalidArgument
from deep_bench.measure.environment import Environment, StealMeter, capture
from deep_bench.measure.fleet import Contender
from deep_bench.measure.risks import risks
from deep_bench.measure.roofline.model import Kind, Rate, Roofline
from deep_bench.measure.roofline.systems import allowed_cpus, thread_variables
from deep_bench.measure.session import Measurement, Plan, Progress, measure
from deep_bench.measure.statistics import summarize
from deep_bench.measure.storage import replace
from deep_bench.measure.user_cache import VARIABLE, user_cache
from deep_bench.variant import Variant

DTYPES = ("float64", "float32", "bfloat16", "float16", "int8")
NUMPY = "numpy"
_SYSTEMS = "deep_bench.measure.roofline.systems"
_DECIDING = (
    "hostname", "cpu_model", "architecture", "cores", "cpus_allowed", "cpu_limit", "smt", "instruction_sets", "governor",
    "turbo", "memory_bytes", "memory_limit_bytes", "python", "gpus",
)  # fmt: skip
"""The facts of an environment that decide how fast the machine can be."""
_EACH_S, _WARM_UP_S = 2.0, 0.5
_ARRAYS_MOVED = {"copy": 2, "triad": 3, "add": 3}


def roofline(
    on: Sequence[str] = (),
    *,
    dtypes: Sequence[str] = DTYPES,
    threads: Sequence[int] | None = None,
    budget: float | None = None,
    ci_width: float = 0.02,
    again: bool = False,
    in_process: bool = False,
    watch: Callable[[Progress], None] = lambda _: None,
) -> Roofline:
    """The roofs of this machine: large products of matrices for each element type, large copies and sums of arrays.

    NumPy is always measured: products by its BLAS in float32 and float64, and copies. Each system lives in a process of its
    own, which is stopped while others are timed; all are measured in random order, block by block. What was measured is kept
    in a file for this machine, these libraries and these arguments, and read from there the next time; what was measured
    beside other work is measured anew once the machine is quiet. Where the file cannot be written, a note says so.

    Args:
        on: Frameworks with options, as in ``"torch"``, whose products and sums are measured too.
        dtypes: Element types of the products; what a framework does not have is said to be unavailable.
        threads: Numbers of threads; by default one, and as many as this process has CPUs. A framework on a device other than
            ``cpu`` is measured once.
        budget: The most seconds to measure for; by default two for each product and copy.
        ci_width: Stop earlier when half of each 95 % interval is at most this share.
        again: Measure anew, whatever is there.
        in_process: Start no processes, for a debugger; nothing is kept.
        watch: Told of each block, for a progress bar.

    Raises:
        UnknownName: A framework that does not exist.
        FrameworkMissing: A framework that is not installed.
        InvalidArgument: An element type or number of threads that does not exist, or no folder to keep anything in is known.
    """
    counts = sorted({1, allowed_cpus()}) if threads is None else list(dict.fromkeys(threads))
    variants = _checked(on, dtypes, counts)
    environment = capture()
    machine = _machine(environment, variants)
    file = _file(machine, [list(map(str, variants)), list(dtypes), counts])
    disturbed = [str(risk) for risk in risks(environment) if risk.name in ("load", "swap")]
    previous = None if again or in_process else _read(file)
    if previous is not None and (disturbed or not previous.notes):
        return previous
    every = _all(variants, dtypes, counts)
    steal = StealMeter()
    seconds = _EACH_S * sum(len(dtypes) + 2 for _ in every) if budget is None else budget
    plan = Plan(ci_width=ci_width, budget_s=seconds, min_calls=5, warm_up_s=_WARM_UP_S)
    measurement = measure([started.contender for started in every], plan, in_process=in_process, watch=watch)
    result = Roofline(
        machine=machine,
        rates=[rate for started in every for rate in _rates(measurement, started, dtypes)],
        notes=disturbed,
        steal=steal.share(),
    )
    if measurement.interrupted:
        result.notes.append("interrupted: some of it was not measured to the end")
    elif not in_process:
        result.notes.extend(_keep(result, file))
    return result


def _checked(on: Sequence[str], dtypes: Sequence[str], threads: Sequence[int]) -> list[Variant]:
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise InvalidArgument(f"the element type {dtype!r}", f"one of {', '.join(DTYPES)}")
    for count in threads:
        if not 1 <= count <= 4096:
            raise InvalidArgument(f"{count} threads", "a number from 1 to 4096")
    if not threads or not dtypes:
        raise InvalidArgument("no threads or no element types", "at least one of each")
    return [Variant.parse(text) for text in dict.fromkeys(on)]


@dataclass(frozen=True, eq=False)
class _Started:
    """What is started: who it is, and with how many threads."""

    contender: Contender
    by: str
    threads: int | None


def _all(variants: Sequence[Variant], dtypes: Sequence[str], threads: Sequence[int]) -> list[_Started]:
    entries = []
    for count in threads:
        arguments = {"dtypes": list(dtypes), "threads": count}
        label = f"{NUMPY} with {count} threads"
        contender = Contender(label, f"{_SYSTEMS}:NumpyRoofs", arguments, thread_variables(count))
        entries.append(_Started(contender, NUMPY, count))
    for variant in variants:
        thread_option = variant.options.get("threads")
        alone = variant.options.get("device", "cpu") != "cpu" or thread_option is not None
        for number in [None] if alone else threads:
            label = str(variant) if number is None else f"{variant} with {number} threads"
            arguments = {"variant": str(variant), "dtypes": list(dtypes), "threads": number}
            variables = {} if number is None else thread_variables(number)
            contender = Contender(label, f"{_SYSTEMS}:FrameworkRoofs", arguments, variables)
            entries.append(_Started(contender, str(variant), int(thread_option) if thread_option is not None else number))
    return entries


def _rates(measurement: Measurement, started: _Started, dtypes: Sequence[str]) -> list[Rate]:
    contender, by, threads = started.contender, started.by, started.threads
    prepared = measurement.prepared.get(contender.label)
    if prepared is None:
        reason = (
            measurement.failures[contender.label].came if contender.label in measurement.failures else "it was not started"
        )
        return [Rate(kind="gemm", by=by, dtype=dtype, threads=threads, unavailable=reason) for dtype in dtypes]
    facts = prepared["facts"]
    rates = [_rate(measurement, contender.label, name, size, by, threads) for name, size in facts["sizes"].items()]
    for name, reason in facts["failed"].items():
        kind, dtype = _parts(name)
        rates.append(Rate(kind=kind, by=by, dtype=dtype, threads=threads, unavailable=reason))
    return rates


def _rate(measurement: Measurement, label: str, name: str, size: int, by: str, threads: int | None) -> Rate:
    kind, dtype = _parts(name)
    launches = measurement.blocks(label, name)
    if not launches or not any(len(block.ns) for block in launches[0]):
        reason = measurement.failures[label].came if label in measurement.failures else "it was interrupted"
        return Rate(kind=kind, by=by, dtype=dtype, threads=threads, size=size, unavailable=reason)
    summary = summarize(launches[0])
    amount = 2 * size**3 if kind == "gemm" else _ARRAYS_MOVED[kind] * size
    interval = summary.interval
    return Rate(
        kind=kind,
        by=by,
        dtype=dtype,
        threads=threads,
        value=amount / summary.median * 1e9,
        low=None if interval is None else amount / interval.high * 1e9,
        high=None if interval is None else amount / interval.low * 1e9,
        basis=None if interval is None else interval.basis,
        size=size,
        n=summary.n,
    )


def _parts(name: str) -> tuple[Kind, str]:
    kind, _, dtype = name.partition(" ")
    return kind, dtype  # type: ignore[return-value]


def _machine(environment: Environment, variants: Sequence[Variant]) -> dict[str, JsonValue]:
    """What decides how fast this machine is, and what it was measured with."""
    facts: Mapping[str, JsonValue] = environment.model_dump(mode="json", include=set(_DECIDING))
    packages = {NUMPY: np.__version__}
    packages |= {v.framework: environment.packages.get(v.framework, "unknown version") for v in variants}
    return {**facts, "packages": dict(packages)}


def _file(machine: Mapping[str, JsonValue], arguments: Sequence[object]) -> Path:
    """The file for a machine and what was asked for."""
    text = json.dumps([machine, arguments], sort_keys=True)
    return user_cache() / "roofline" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _keep(result: Roofline, file: Path) -> list[str]:
    """Write the roofs where the next one finds them; if that cannot be, why: minutes of measuring are not lost to it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, lambda path: path.write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8"))
    except OSError as error:
        reason = f"{file.parent} cannot be written ({error.strerror})"
        return [f"not kept for the next time: {reason}; name a folder in the environment variable {VARIABLE}"]
    return []


def _read(file: Path) -> Roofline | None:
    with suppress(OSError, ValidationError):  # one that cannot be read is measured anew
        return Roofline.model_validate_json(file.read_text(encoding="utf-8"))
    return None
