"""What a stage and its neighbours tell each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import ml_dtypes
import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator, Request
from deep_bench.errors import Unsupported

Arrays: TypeAlias = "dict[str, np.ndarray]"
Forms: TypeAlias = "dict[str, tuple[tuple[int, ...], np.dtype]]"
"""Name to shape and element type."""

_SHAPES, _VALUES, _GRADIENTS = 821, 822, 823

_TYPES: tuple[np.dtype, ...] = tuple(
    np.dtype(kind)
    for kind in (
        *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, np.float32, np.float64, np.complex64, np.complex128),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    )
)
"""Told by their number: all ranks have the same version."""

_MOST_DIMENSIONS = 8
_WIDTH = 2 + _MOST_DIMENSIONS


class Links:
    """Messages between neighbours, as bytes; what is sent is held until it has arrived, and nobody waits for that.

    The shapes of values go ahead of them. Gradients have those of the values that they are of.

    Args:
        comm: The ranks, one for each stage, in order.
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._under_way: list[tuple[Request, np.ndarray]] = []

    def send_on(self, values: Mapping[str, np.ndarray]) -> Forms:
        """Send values to the stage after; returns what they look like."""
        if values:
            self._send(np.concatenate([_described(name, x) for name, x in values.items()]), self._comm.rank + 1, _SHAPES)
        for x in values.values():
            self._send(_as_bytes(x), self._comm.rank + 1, _VALUES)
        return {name: (x.shape, x.dtype) for name, x in values.items()}

    def receive_on(self, names: Sequence[str]) -> Arrays:
        """The values that the stage before sent."""
        if not names:
            return {}
        header = np.empty(len(names) * _WIDTH, np.int64)
        self._comm.recv(header, self._comm.rank - 1, _SHAPES)
        rows = header.reshape(-1, _WIDTH)
        forms = {name: _form(row) for name, row in zip(names, rows, strict=True)}
        return self._receive(forms, self._comm.rank - 1, _VALUES)

    def send_back(self, gradients: Mapping[str, np.ndarray]) -> None:
        """Send gradients to the stage before."""
        for x in gradients.values():
            self._send(_as_bytes(x), self._comm.rank - 1, _GRADIENTS)

    def receive_back(self, forms: Forms) -> Arrays:
        """The gradients that the stage after sent."""
        return self._receive(forms, self._comm.rank + 1, _GRADIENTS)

    def from_stage(self, number: int, arrays: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays:
        """What one stage has, on all; all call this together."""
        if self._comm.size == 1 or not names:
            return dict(arrays)
        mine = self._comm.rank == number
        header = np.concatenate([_described(name, arrays[name]) for name in names]) if mine else None
        header = self._comm.broadcast(np.empty(len(names) * _WIDTH, np.int64) if header is None else header, number)
        received = {}
        for name, row in zip(names, header.reshape(-1, _WIDTH), strict=True):
            out = arrays[name] if mine else _empty(*_form(row))
            self._comm.broadcast(_as_bytes(out), number)
            received[name] = out
        return received

    def wait(self) -> None:
        """Return when everything that was sent may be changed."""
        for request, _ in self._under_way:
            request.wait()
        self._under_way = []

    def _send(self, x: np.ndarray, to: int, tag: int) -> None:
        self._under_way = [entry for entry in self._under_way if not entry[0].test()]
        self._under_way.append((self._comm.isend(x, to, tag), x))

    def _receive(self, forms: Forms, source: int, tag: int) -> Arrays:
        arrays = {name: _empty(*form) for name, form in forms.items()}
        begun = [self._comm.irecv(_as_bytes(x), source, tag) for x in arrays.values()]
        for request in begun:
            request.wait()
        return arrays


def _empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.empty(shape, dtype)


def _as_bytes(x: np.ndarray) -> np.ndarray:
    """The bytes of an array, in its own memory where they follow each other."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(np.uint8)


def _described(name: str, x: np.ndarray) -> np.ndarray:
    if x.dtype not in _TYPES or x.ndim > _MOST_DIMENSIONS:
        raise Unsupported(
            f"{name!r} passes between stages, of type {x.dtype} and {x.ndim} dimensions",
            f"at most {_MOST_DIMENSIONS} dimensions of {', '.join(map(str, _TYPES))}",
        )
    row = np.zeros(_WIDTH, np.int64)
    row[:2] = _TYPES.index(x.dtype), x.ndim
    row[2 : 2 + x.ndim] = x.shape
    return row


def _form(row: np.ndarray) -> tuple[tuple[int, ...], np.dtype]:
    return tuple(row[2 : 2 + int(row[1])].tolist()), _TYPES[int(row[0])]
