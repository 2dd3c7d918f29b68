"""What ranks say to each other beside their communicator: lines of JSON over TCP."""

from __future__ import annotations

import json
import select
import socket
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Any

_LARGEST = 2**22
"""A line that is longer than this many bytes is of no rank."""

_SENDING_S = 2.0
"""So long may it take to send a line, before the other end counts as gone."""


class Lines:
    """One end of a connection.

    Args:
        connection: A socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_SENDING_S)
        self.connection = connection
        self._lock, self._rest = Lock(), b""

    def fileno(self) -> int:
        """That of the socket."""
        return self.connection.fileno()

    def say(self, **content: Any) -> bool:
        """Send one line; whether the other end is still there. Any thread may."""
        with self._lock:
            try:
                self.connection.sendall(json.dumps(content).encode() + b"\n")
            except OSError:
                return False
            return True

    def hear(self, within_s: float) -> list[dict[str, Any]] | None:
        """The lines that come within some time, as soon as there are any; ``None`` once the other end is gone."""
        try:
            poll = select.poll()
            poll.register(self.connection, select.POLLIN)
            if not poll.poll(within_s * 1e3):
                return []
            came = self.connection.recv(2**16)
            *whole, self._rest = (self._rest + came).split(b"\n")
            return None if not came or len(self._rest) > _LARGEST else [dict(json.loads(line)) for line in whole]
        except (OSError, ValueError):
            return None

    def stop_hearing(self) -> None:
        """Have whoever hears at this moment stop."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def finish(self, within_s: float) -> None:
        """Say no more, and wait for the other end to close: what is unheard when this one ends would undo what it said.

        Args:
            within_s: At most so long.
        """
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
        until = monotonic() + within_s
        while (remaining := until - monotonic()) > 0 and self.hear(remaining) is not None:
            pass

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def listening(everywhere: bool) -> socket.socket:
    """A socket that others can connect to, on a port that is free.

    Args:
        everywhere: From other hosts too.
    """
    return socket.create_server(("" if everywhere else "127.0.0.1", 0), backlog=1024)


def connected(addresses: list[str], port: int, token: str, within_s: float, **who: Any) -> Lines | None:
    """A connection to the first address where somebody answers that knows the token; ``None`` if there is none.

    Args:
        addresses: Names or numbers of one host.
        port: Where it listens.
        token: What only ranks of this run know.
        within_s: For each address.
        **who: What to say of oneself.
    """
    for address in addresses:
        try:
            lines = Lines(socket.create_connection((address, port), timeout=within_s))
        except OSError:
            continue
        heard = lines.hear(within_s) if lines.say(token=token, **who) else None
        if heard and heard[0].get("token") == token:
            return lines
        lines.close()
    return None
