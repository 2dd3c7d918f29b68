"""The program that runs in a worker process: ``python -m deep_bench.workers.worker FD PARENT MEMORY_LIMIT``.

It builds one system and answers requests on a socket until that closes. See `deep_bench.workers.process` for the other end.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import socket
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from deep_bench.errors import DeepBenchError, shortened
from deep_bench.workers.evidence import MEMORY_WORDS
from deep_bench.workers.host import Host, build, process_facts
from deep_bench.workers.wire import Channel, Pickles, Wire

_PR_SET_PDEATHSIG = 1
LINE_CHARACTERS, _TRACE_CHARACTERS = 1_000, 20_000
"""So much is told of an error that a system raised: its message may have any length."""


def main(arguments: list[str]) -> None:
    """Serve requests on the inherited socket until its other end closes."""
    fd, parent, memory_limit = map(int, arguments)
    os.set_inheritable(fd, False)
    die_with(parent)
    _serve_alone(Pickles(Connection(fd)), memory_limit)


def serve_elsewhere(end: socket.socket, parent: int, memory_limit: int) -> None:
    """The same in another environment than the one that started it (`deep_bench.workers.greeting`).

    Args:
        end: The socket.
        parent: Who started it, perhaps through a shell or a container's program.
        memory_limit: The most data it may allocate, in bytes; 0 sets none.
    """
    if os.getppid() == parent:
        die_with(parent)
    _serve_alone(Wire(end), memory_limit)


def _serve_alone(channel: Channel, memory_limit: int) -> None:
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ends stopped orphans; under nohup it would be ignored
    if memory_limit:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_limit, memory_limit))
    try:
        serve(channel)
    finally:
        channel.close()


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, even while it is stopped (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def serve(channel: Channel) -> None:
    """Answer ``(method, args, options)`` with ``("result", value)`` or ``("error", …)``; the first request is ``build``."""
    host: Host | None = None
    while True:
        try:
            message = channel.read()
        except EOFError:
            return
        try:
            method, args, options = channel.decode(message)
            if method == "build":
                host = Host(build(*args))
                reply = channel.encode(("result", process_facts()))
            else:
                reply = channel.encode(("result", perform(host, method, args, options)))
        except (Exception, SystemExit) as error:  # whatever a system raises belongs to the other side
            reply = channel.encode(("error", channel.error(error), *describe(error)))
        channel.write(reply)


def perform(host: Host | None, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """One request: the host's own methods start with a dot, all others are the system's."""
    if host is None:
        raise DeepBenchError("the worker has no system yet")
    if method == ".facts":
        return process_facts()
    target = host if method.startswith(".") else host.system
    return getattr(target, method.removeprefix("."))(*args, **options)


def describe(error: BaseException) -> tuple[str, str, bool]:
    """The error in a line, its traceback, and whether memory ran out; both texts lose their middle where they are long."""
    line = "".join(traceback.format_exception_only(type(error), error)).strip()
    memory = isinstance(error, MemoryError) or any(words in line.lower() for words in MEMORY_WORDS)
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return shortened(line, LINE_CHARACTERS), shortened(trace, _TRACE_CHARACTERS), memory


if __name__ == "__main__":
    main(sys.argv[1:])
