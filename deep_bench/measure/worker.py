"""The program that runs in a worker process: ``python -m deep_bench.measure.worker FD PARENT MEMORY_LIMIT``.

It builds one system and answers requests on a socket until that closes. See `deep_bench.measure.workers` for the other end.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import resource
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from deep_bench.errors import DeepBenchError, shortened
from deep_bench.measure.death import MEMORY_WORDS
from deep_bench.measure.system import Host, build, process_facts

_PR_SET_PDEATHSIG = 1
LINE_CHARACTERS, _TRACE_CHARACTERS = 1_000, 20_000
"""So much is told of an error that a system raised: its message may have any length."""


def main(arguments: list[str]) -> None:
    """Serve requests on the inherited socket until its other end closes."""
    fd, parent, memory_limit = map(int, arguments)
    os.set_inheritable(fd, False)
    die_with(parent)
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ends stopped orphans; under nohup it would be ignored
    if memory_limit:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_limit, memory_limit))
    with Connection(fd) as connection:
        serve(connection)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, even while it is stopped (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def serve(connection: Connection) -> None:
    """Answer ``(method, args, options)`` with ``("result", value)`` or ``("error", …)``; the first request is ``build``."""
    host: Host | None = None
    while True:
        try:
            method, args, options = connection.recv()
        except EOFError:
            return
        try:
            if method == "build":
                host = Host(build(*args))
                reply = pickle.dumps(("result", process_facts()))
            else:
                reply = pickle.dumps(("result", perform(host, method, args, options)))
        except (Exception, SystemExit) as error:  # whatever a system raises belongs to the other side
            reply = pickle.dumps(("error", *describe(error)))
        connection.send_bytes(reply)


def perform(host: Host | None, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """One request: the host's own methods start with a dot, all others are the system's."""
    if host is None:
        raise DeepBenchError("the worker has no system yet")
    if method == ".facts":
        return process_facts()
    target = host if method.startswith(".") else host.system
    return getattr(target, method.removeprefix("."))(*args, **options)


def describe(error: BaseException) -> tuple[bytes | None, str, str, bool]:
    """The error pickled (if one of deep_bench's that survives it), in a line, its traceback, and if memory ran out.

    Line and traceback lose their middle where they are long.
    """
    pickled = None
    if isinstance(error, DeepBenchError):
        try:
            pickled = pickle.dumps(error)
            pickle.loads(pickled)
        except Exception:  # an error of a foreign class may fail to pickle in any way: then its text is sent
            pickled = None
    line = "".join(traceback.format_exception_only(error)).strip()
    memory = isinstance(error, MemoryError) or any(words in line.lower() for words in MEMORY_WORDS)
    trace = "".join(traceback.format_exception(error))
    return pickled, shortened(line, LINE_CHARACTERS), shortened(trace, _TRACE_CHARACTERS), memory


if __name__ == "__main__":
    main(sys.argv[1:])
