"""The roofline of this machine: what it computes and moves in a second at most; and how near something comes to that.

The roofs are measured once; then they are read from a file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from pydantic import Field, JsonValue, ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.errors import InvalidArgument
from deep_bench.measure.environment import Environment, StealMeter, capture, disturbances
from deep_bench.measure.roofline_systems import allowed_cpus, thread_variables
from deep_bench.measure.session import Measurement, Plan, SessionProgress, measure
from deep_bench.measure.statistics import summarize
from deep_bench.measure.units import in_bytes, significant
from deep_bench.records.fields import Count, Date, NotNegative, Positive, RecordModel
from deep_bench.records.folders import VARIABLE, user_cache
from deep_bench.records.store import replace
from deep_bench.records.table import print_table
from deep_bench.variant import Variant
from deep_bench.workers.fleet import Contender

__all__ = ["DTYPES", "Costed", "Rate", "Roofline", "Share", "roofline"]

Kind = Literal["gemm", "copy", "triad", "add"]
Bound = Literal["compute", "memory", "unknown"]


class Costed(Protocol):
    """What something computes and moves; `deep_bench.operators.cost.Cost` is one."""

    @property
    def flops(self) -> int:
        """Floating-point operations."""

    @property
    def bytes(self) -> int:
        """Bytes read and written."""


class Rate(RecordModel):
    """What was reached of one kind of work.

    Attributes:
        kind: A product of matrices; or ``a = b``, ``a = b + s c`` (both by NumPy) or ``a = b + c`` on large arrays.
        by: Who did it: ``"numpy"``, or a framework with its options.
        dtype: The element type.
        threads: How many threads; ``None`` on a device that has its own.
        value: FLOP/s of a product, B/s of the others, by the median time; ``None`` where it could not be measured.
        low: The lower end of its 95 % interval.
        high: The upper end.
        basis: What the interval was taken over.
        size: The matrices' width, or the bytes of one array.
        n: The number of samples.
        unavailable: Why there is no value.
    """

    kind: Kind
    by: str
    dtype: str
    threads: int | None = None
    value: Positive | None = None
    low: NotNegative | None = None
    high: NotNegative | None = None
    basis: str | None = None
    size: Count | None = None
    n: Count = 0
    unavailable: str = ""

    @property
    def unit(self) -> str:
        """``"FLOP/s"``, ``"OP/s"`` of integers, or ``"B/s"``."""
        return "B/s" if self.kind != "gemm" else "OP/s" if "int" in self.dtype else "FLOP/s"


@dataclass(frozen=True)
class Share:
    """How near something comes to the roofs.

    Args:
        flops: FLOP/s that it reached.
        bytes: B/s that it reached, of compulsory traffic.
        compute: The share of the peak of its element type; ``None`` if no peak is known for that.
        memory: The share of the bandwidth. Above 1 its data came from caches.
        bound: Which roof is the lower one at its intensity.
        intensity: FLOPs for each byte; ``None`` if it moves nothing.
        roof: The share of the lower roof: the least possible time over the time that it took.
    """

    flops: float
    bytes: float
    compute: float | None
    memory: float | None
    bound: Bound
    intensity: float | None
    roof: float | None


class Roofline(RecordModel):
    """The roofs of one machine.

    Attributes:
        machine: What decides them: processor, limits, libraries.
        created: When they were measured.
        rates: All that was measured.
        notes: What disturbed it.
        steal: The share of the processors' time that the hypervisor gave to others meanwhile.
    """

    schema_version: Literal[1] = 1
    machine: dict[str, JsonValue] = Field(default_factory=dict)
    created: Date = Field(default_factory=lambda: datetime.now(UTC))
    rates: list[Rate] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    steal: float | None = None

    def peak(self, dtype: str = "float32", *, threads: int | None = None, by: str | None = None) -> Rate | None:
        """The fastest product of matrices of an element type.

        Args:
            dtype: The element type.
            threads: With so many threads; with any number by default.
            by: Done by this; by anyone by default.
        """
        return self._best([r for r in self.rates if r.kind == "gemm" and r.dtype == dtype], threads, by)

    def bandwidth(self, *, threads: int | None = None, by: str | None = None) -> Rate | None:
        """The fastest of the copies and sums of large arrays; the arguments are those of `peak`."""
        return self._best([r for r in self.rates if r.kind != "gemm"], threads, by)

    def share(
        self, seconds: float, cost: Costed, *, dtype: str = "float32", threads: int | None = None, by: str | None = None
    ) -> Share:
        r"""How near a call comes to the roofs.

        Its least possible time is :math:`\max(W / P, Q / B)` with ``W`` FLOPs, ``Q`` bytes, the peak ``P`` and the bandwidth
        ``B``.

        Args:
            seconds: What it took.
            cost: What it computes and moves.
            dtype: The element type that it computes in.
            threads: As for `peak`.
            by: As for `peak`.

        Raises:
            InvalidArgument: The time is not above 0.

        Example:
            >>> from types import SimpleNamespace
            >>> roofs = Roofline(
            ...     rates=[Rate(kind="gemm", by="numpy", dtype="float32", value=100e9), Rate(kind="copy", by="numpy",
            ...            dtype="float64", value=10e9)])
            >>> found = roofs.share(0.1, SimpleNamespace(flops=2 * 10**9, bytes=4 * 10**8))
            >>> found.compute, found.memory, found.bound, found.intensity, found.roof
            (0.2, 0.4, 'memory', 5.0, 0.4)

        Source:
            Williams, Waterman and Patterson, Roofline: an insightful visual performance model for multicore architectures,
            Comm. ACM 52 (2009).
        """
        if not seconds > 0:
            raise InvalidArgument(f"a time of {seconds!r} s", "a number above 0")
        peak, bandwidth = self.peak(dtype, threads=threads, by=by), self.bandwidth(threads=threads, by=by)
        flops, moved = cost.flops / seconds, cost.bytes / seconds
        compute = None if peak is None or peak.value is None else flops / peak.value
        memory = None if bandwidth is None or bandwidth.value is None else moved / bandwidth.value
        if cost.flops == 0:
            compute = None if peak is None else 0.0
        shares = [part for part in (compute, memory) if part is not None]
        bound: Bound = "unknown"
        if memory is not None and (compute is not None or cost.flops == 0):
            bound = "compute" if (compute or 0.0) > memory else "memory"
        whole = max(shares) if bound != "unknown" else None
        return Share(flops, moved, compute, memory, bound, cost.flops / cost.bytes if cost.bytes else None, whole)

    def _best(self, rates: Sequence[Rate], threads: int | None, by: str | None) -> Rate | None:
        chosen = [
            rate
            for rate in rates
            if rate.value is not None and (threads is None or rate.threads == threads) and (by is None or rate.by == by)
        ]
        return max(chosen, key=lambda rate: rate.value or 0.0, default=None)

    @property
    def failures(self) -> Mapping[str, str]:
        """What could not be measured, to why."""
        return {f"{r.kind} {r.dtype}, {r.by}, {r.threads} threads": r.unavailable for r in self.rates if r.value is None}


DTYPES = ("float64", "float32", "bfloat16", "float16", "int8")
NUMPY = "numpy"
_SYSTEMS = "deep_bench.measure.roofline_systems"
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
    watch: Callable[[SessionProgress], None] = lambda _: None,
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
    # the file for a machine and what was asked for
    arguments = [list(map(str, variants)), list(dtypes), counts]
    text = json.dumps([machine, arguments], sort_keys=True)
    file = user_cache() / "roofline" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
    disturbed = disturbances(environment)
    previous = None if again or in_process else _stored(file)
    if previous is not None and (disturbed or not previous.notes):
        return previous
    every = _roof_systems(variants, dtypes, counts)
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
        result.notes.extend(_store(result, file))
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
class _RoofSystem:
    """What is started: who it is, and with how many threads."""

    contender: Contender
    by: str
    threads: int | None


def _roof_systems(variants: Sequence[Variant], dtypes: Sequence[str], threads: Sequence[int]) -> list[_RoofSystem]:
    entries = []
    for count in threads:
        arguments = {"dtypes": list(dtypes), "threads": count}
        label = f"{NUMPY} with {count} threads"
        contender = Contender(label, f"{_SYSTEMS}:NumpyRoofs", arguments, thread_variables(count))
        entries.append(_RoofSystem(contender, NUMPY, count))
    for variant in variants:
        thread_option = variant.options.get("threads")
        alone = variant.options.get("device", "cpu") != "cpu" or thread_option is not None
        for number in [None] if alone else threads:
            label = str(variant) if number is None else f"{variant} with {number} threads"
            arguments = {"variant": str(variant), "dtypes": list(dtypes), "threads": number}
            variables = {} if number is None else thread_variables(number)
            contender = Contender(label, f"{_SYSTEMS}:FrameworkRoofs", arguments, variables)
            entries.append(_RoofSystem(contender, str(variant), int(thread_option) if thread_option is not None else number))
    return entries


def _rates(measurement: Measurement, started: _RoofSystem, dtypes: Sequence[str]) -> list[Rate]:
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


def _store(result: Roofline, file: Path) -> list[str]:
    """Write the roofs where the next one finds them; if that cannot be, why: minutes of measuring are not lost to it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, lambda path: path.write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8"))
    except OSError as error:
        reason = f"{file.parent} cannot be written ({error.strerror})"
        return [f"not kept for the next time: {reason}; name a folder in the environment variable {VARIABLE}"]
    return []


def _stored(file: Path) -> Roofline | None:
    with suppress(OSError, ValidationError):  # one that cannot be read is measured anew
        return Roofline.model_validate_json(file.read_text(encoding="utf-8"))
    return None


_IDENTIFYING = ("hostname", "cpu_model", "architecture", "cores", "cpus_allowed", "cpu_limit", "instruction_sets", "gpus")
"""What must be the same for a machine to be the same."""


def latest_roofline(folder: Path | None = None) -> Roofline | None:
    """The roofs of this machine that were measured last, or ``None`` if they never were.

    Args:
        folder: Where they are kept; by default where `deep_bench.measure.roofline.roofline` keeps them.
    """
    matches = []
    current_machine: Mapping[str, JsonValue] | None = None
    for file in _roofline_files(folder):
        current_machine = (
            capture().model_dump(mode="json", include=set(_IDENTIFYING)) if current_machine is None else current_machine
        )
        with suppress(OSError, ValidationError):  # one that cannot be read is none
            candidate = Roofline.model_validate_json(file.read_text(encoding="utf-8"))
            if all(candidate.machine.get(name) == current_machine.get(name) for name in _IDENTIFYING):
                matches.append(candidate)
    return max(matches, key=lambda kept: kept.created, default=None)


def _roofline_files(folder: Path | None) -> list[Path]:
    """Those that may hold roofs; none where there is no folder, or one that this user cannot look into."""
    with suppress(InvalidArgument, OSError):
        place = user_cache() / "roofline" if folder is None else folder
        return [place / name for name in os.listdir(place) if name.endswith(".json")]
    return []


_NAMES = {"gemm": "product of matrices", "copy": "a = b", "triad": "a = b + 3 c", "add": "a = b + c"}


def as_text(found: Roofline, width: int = 125) -> str:
    """All that was measured, the roofs that follow from it, and what disturbed it.

    Example:
        >>> rate = Rate(kind="copy", by="numpy", dtype="float64", threads=1, value=2e10, low=1.9e10, high=2.1e10, size=2**27)
        >>> print(as_text(Roofline(rates=[rate])).splitlines()[-1].strip())
        a = b   float64         1   numpy   20.0 GB/s    19.0 to 21.0   128 MiB
    """
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for name, justify in (("what", "left"), ("in", "left"), ("threads", "right"), ("by", "left"), ("median", "right"),
                          ("95 % interval", "right"), ("size", "right")):  # fmt: skip
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for rate in found.rates:
        table.add_row(*map(Text, _row(rate)))
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    print_table(console, table, keys=4)
    for line in lines_below(found):
        console.print(Text(line))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def lines_below(found: Roofline) -> list[str]:
    """What the table does not say: where the roofs meet, what is missing, what disturbed it."""
    lines = []
    bandwidth = found.bandwidth()
    for dtype in dict.fromkeys(rate.dtype for rate in found.rates if rate.kind == "gemm"):
        peak = found.peak(dtype)
        if peak is not None and peak.value and bandwidth is not None and bandwidth.value:
            ridge = peak.value / bandwidth.value
            lines.append(f"{dtype}: below {ridge:.3g} FLOP a byte the memory limits, above it the processor")
    lines += [f"not available: {quantity}: {reason}" for quantity, reason in found.failures.items()]
    return lines + list(found.notes)


def _row(rate: Rate) -> tuple[str, ...]:
    threads = "–" if rate.threads is None else str(rate.threads)
    size = "–" if rate.size is None else f"{rate.size} x {rate.size}" if rate.kind == "gemm" else in_bytes(rate.size)
    if rate.value is None:
        return _NAMES[rate.kind], rate.dtype, threads, rate.by, "not available", "–", size
    value, low, high = ("" if v is None else significant(v / 1e9) for v in (rate.value, rate.low, rate.high))
    interval = f"{low} to {high}" if low and high else "too few"
    return _NAMES[rate.kind], rate.dtype, threads, rate.by, f"{value} G{rate.unit}", interval, size
