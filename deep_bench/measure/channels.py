"""How a worker and who started it talk: pickled within one environment; `deep_bench.measure.wire` is for two."""

from __future__ import annotations

import pickle
from multiprocessing.connection import Connection
from typing import Any, Protocol

from deep_bench.errors import DeepBenchError


class Channel(Protocol):
    """One end. What `encode` takes and `decode` returns are plain values; what lies between is the channel's own."""

    def encode(self, value: Any) -> Any:
        """A value as it is sent; raises where it cannot be."""

    def write(self, encoded: Any) -> None:
        """Send it."""

    def read(self) -> Any:
        """What came; raises `EOFError` where the other end is gone."""

    def decode(self, message: Any) -> Any:
        """The value in it; raises where it cannot be read here."""

    def error(self, error: BaseException) -> Any:
        """An error of deep_bench's as a value, if it survives that; else None."""

    def original(self, value: Any) -> DeepBenchError | None:
        """The inverse."""

    def fileno(self) -> int:
        """What to wait for."""

    def close(self) -> None:
        """Close this end."""


class Pickles:
    """A channel within one environment, where whatever can be pickled may be sent.

    Args:
        connection: It is closed with this.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def encode(self, value: Any) -> bytes:
        """It, pickled."""
        return pickle.dumps(value)

    def write(self, encoded: bytes) -> None:
        """Send it."""
        self._connection.send_bytes(encoded)

    def read(self) -> bytes:
        """What came."""
        return self._connection.recv_bytes()

    def decode(self, message: bytes) -> Any:
        """It, unpickled, which runs other people's code and may raise anything."""
        return pickle.loads(message)

    def error(self, error: BaseException) -> bytes | None:
        """The error, pickled."""
        if not isinstance(error, DeepBenchError):
            return None
        try:
            pickled = pickle.dumps(error)
            pickle.loads(pickled)
        except Exception:  # an error of a foreign class may fail to pickle in any way: then its text is sent
            return None
        return pickled

    def original(self, value: Any) -> DeepBenchError | None:
        """The error that was pickled, unless its class cannot be had here."""
        if value is None:
            return None
        try:
            error = pickle.loads(value)
        except Exception:  # as above
            return None
        return error if isinstance(error, DeepBenchError) else None

    def fileno(self) -> int:
        """Of the connection."""
        return self._connection.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
