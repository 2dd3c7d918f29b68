"""The roofs of a machine: what it computes and moves in a second at most, as measured; and how near something comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol

from pydantic import Field, JsonValue

from deep_bench.errors import InvalidArgument
from deep_bench.measure.amounts import Count, Date, NotNegative, Positive
from deep_bench.measure.record import Model

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


class Rate(Model):
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


class Roofline(Model):
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
