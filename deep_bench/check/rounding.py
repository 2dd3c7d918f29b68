"""The model of rounding errors: how large the error of one operation may be in a given format, and random draws from it.

The size of an error is stated as an amplitude: errors are drawn uniformly from ``[-amplitude, amplitude]``, so that
``amplitude = u |y|`` stands for one rounding of ``y``.

Source:
    Parker, *Monte Carlo arithmetic*, UCLA CSD-970002, 1997; Higham and Mary, *A new approach to probabilistic rounding
    error analysis*, SIAM J. Sci. Comput. 41 (2019), for errors that grow like a square root.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import ml_dtypes
import numpy as np

from deep_bench.tensor import unit_roundoff

Accumulation = Literal["blocked", "sequential"]

_CARRY = 4.0
"""The weight of the squared result in the error of a blocked sum, in squared roundings of the result.

A pairwise sum of terms of one sign has 2; kernels that add long chains inside a block have more. With 4, the products of
OpenBLAS, oneDNN and ONNX Runtime come out flat over lengths from 16 to 2,048 (``docs/checking.md`` has the figures).
"""


_RECALLED_BYTES = 2**30


@dataclass(eq=False)
class Recall:
    """The amplitudes of errors of sums of products, in the order of one evaluation.

    All evaluations of a network with rounding errors need the same ones up to a few roundings, so the first computes them
    and the others read them. An evaluation that takes another course is noticed by the node or the shape.
    """

    stored: dict[tuple[Any, ...], np.ndarray] = field(default_factory=dict)
    bytes: int = 0
    place: tuple[Any, ...] = ()
    number: int = 0

    def start(self, *place: Any) -> None:
        """Name the node that is evaluated next, and how often it was before."""
        self.place, self.number = place, 0

    def get(self, compute: Callable[[], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """What was computed at this place before, else what ``compute`` gives now."""
        key = (*self.place, self.number, shape)
        self.number += 1
        if key not in self.stored:
            value = compute()
            if self.bytes + value.nbytes > _RECALLED_BYTES:
                return value
            self.stored[key] = value
            self.bytes += value.nbytes
        return self.stored[key]


@dataclass(frozen=True, slots=True, eq=False)
class Rounding:
    """Rounding errors in one format.

    Args:
        format: The working format that the values stand for.
        rng: Where random errors are drawn from; ``None`` draws none, so that arithmetic stays that of float64.
        accumulation: How sums are assumed to be added: in blocks, as optimised kernels do, or term by term.
        scale: How much larger than expected the errors are made: to see which decisions are close.
        recall: What earlier evaluations of the same network found out about sizes of errors.
    """

    format: np.dtype
    rng: np.random.Generator | None = None
    accumulation: Accumulation = "blocked"
    scale: float = 1.0
    recall: Recall | None = None

    @property
    def u(self) -> float:
        """The unit roundoff of the format."""
        return unit_roundoff(self.format)

    def of_result(self, y: np.ndarray) -> np.ndarray:
        """``y`` with the error of one rounding; none where the format holds ``y`` exactly.

        Below the smallest normal number the error may be as large as that number: kernels may flush to zero.
        """
        if self.rng is None or not y.size:
            return y
        if np.iscomplexobj(y):
            return self.of_result(y.real) + 1j * self.of_result(y.imag)
        amplitude = self.u * np.abs(y)
        tiny = float(ml_dtypes.finfo(self.format).smallest_normal)
        return self.disturbed(y, np.where(amplitude < self.u * tiny, tiny, amplitude))

    def of_sum(
        self, y: np.ndarray, squares: np.ndarray | Callable[[], np.ndarray], terms: int, roundings: int = 0
    ) -> np.ndarray:
        r"""``y``, a sum of ``terms`` products, with the error of multiplying and adding in the working format.

        The amplitude is :math:`u \sqrt{(m + \log_2 n) \sum t_i^2 + c y^2}` for blocked and
        :math:`u \sqrt{(m + n / 2) \sum t_i^2 + n y^2 / 3}` for sequential addition, with ``m`` roundings for each of the
        ``n`` terms. Partial sums of terms of random sign grow like the root of their number, those of one sign linearly.

        Args:
            y: The exact sums.
            squares: The sums of the squared terms, in any precision; a function of no arguments is called only where no
                earlier evaluation has done so.
            terms: How many terms each sum has.
            roundings: How many roundings each term itself comes with: one for a product of two factors.
        """
        if self.rng is None or not y.size or (terms <= 1 and not roundings):
            return y

        def amplitude() -> np.ndarray:
            return self._of_terms(y, squares() if callable(squares) else squares, terms, roundings)

        if self.recall is not None and callable(squares):
            return self.disturbed(y, self.recall.get(amplitude, y.shape), summed=True)
        return self.disturbed(y, amplitude(), summed=True)

    def _of_terms(self, y: np.ndarray, squares: np.ndarray, terms: int, roundings: int) -> np.ndarray:
        """The amplitude of the error of a sum."""
        if terms <= 1:
            spread, carry = float(roundings), 0.0
        elif self.accumulation == "blocked":
            spread, carry = roundings + np.log2(terms), _CARRY
        else:
            spread, carry = roundings + terms / 2, max(terms / 3, 1.0)
        amplitude = np.asarray(np.abs(y) ** 2, np.float64)
        amplitude *= carry
        amplitude += spread * squares
        np.sqrt(amplitude, out=amplitude)
        amplitude *= self.u
        return amplitude

    def disturbed(self, y: np.ndarray, amplitude: Any, *, summed: bool = False) -> np.ndarray:
        """``y`` plus random errors of this amplitude, where ``y`` is finite and not exact in the format.

        A sum that the format happens to hold may still have been rounded on the way: only whole numbers count as exact, and
        of these only as many as the format has digits for.
        """
        if self.rng is None or not y.size:
            return y
        if np.iscomplexobj(y):
            parts = (self.disturbed(part, amplitude, summed=summed) for part in (y.real, y.imag))
            return next(parts) + 1j * next(parts)
        noise = np.asarray(self.rng.random(y.shape, dtype=np.float32))
        noise -= np.float32(0.5)
        noise *= np.float32(2.0 * self.scale)
        error = np.asarray(np.multiply(noise, amplitude, dtype=np.float64))
        error[self._is_whole(y) if summed else self._holds(y)] = 0.0
        if not np.isfinite(np.sum(error)):
            error[~(np.isfinite(error) & np.isfinite(y))] = 0.0
        error += y
        return error

    def errors(self, amplitude: np.ndarray) -> np.ndarray:
        """Random errors of this amplitude, finite ones only."""
        if self.rng is None:
            return np.zeros(amplitude.shape)
        noise = 2.0 * self.scale * self.rng.random(amplitude.shape) - self.scale
        return np.asarray(noise * np.where(np.isfinite(amplitude), amplitude, 0.0))

    def _holds(self, y: np.ndarray) -> np.ndarray:
        """Where the format holds ``y`` exactly; of float64, whose roundings cannot be seen here, whole numbers."""
        return self._is_whole(y) if self.format.itemsize >= 8 else np.asarray(y.astype(self.format) == y)

    def _is_whole(self, y: np.ndarray) -> np.ndarray:
        """Where ``y`` is a whole number that the format has digits for: beyond, float64 has no others."""
        return np.asarray((np.rint(y) == y) & (np.abs(y) <= 1 / self.u))
