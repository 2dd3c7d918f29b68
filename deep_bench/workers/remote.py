"""Another Python environment, as workers are started in it."""

from __future__ import annotations

import json
import os
import select
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deep_bench
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.workers import greeting
from deep_bench.workers.wire import PROTOCOL

PACKAGE = Path(deep_bench.__file__).parent
_MOST_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Place:
    """Where a worker runs that does not run in this environment.

    Args:
        name: What it is called, as after the ``@`` of a variant.
        command: The words that start its Python: the interpreter, after a container's or a shell's words if it needs them.
        variables: Environment variables for it; None removes one.
        lean: Whether deep_bench is not needed there; NumPy is, and a system that needs no more.
        any_source: Whether deep_bench there may be of another version, or changed.
        facts: What a record keeps of it.
    """

    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str | None] = field(default_factory=dict)
    lean: bool = False
    any_source: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)

    def program(self, memory_limit: int) -> list[str]:
        """The words that start a worker there, with a socket as its standard input."""
        kind = "lean" if self.lean else "full"
        return [
            *self.command,
            str(PACKAGE / "workers" / "greeting.py"),
            str(PACKAGE),
            str(os.getpid()),
            str(memory_limit),
            kind,
        ]

    def environment(self, changes: Mapping[str, str | None], path: str) -> dict[str, str]:
        """The environment variables of a worker there: this process's without what leads Python back to this environment."""
        base_variables = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
        merged: dict[str, str | None] = {
            **base_variables,
            **({"PYTHONPATH": path} if path else {}),
            **self.variables,
            **changes,
        }
        return {name: value for name, value in merged.items() if value is not None}

    def agreed(self, said: Mapping[str, Any], group: int, label: str) -> dict[str, Any]:
        """Whether a worker can work with this process, by what it said of itself.

        Args:
            said: Its greeting.
            group: The process group that it was started in.
            label: What to call it.

        Returns:
            What a record keeps of the environment.

        Raises:
            InvalidArgument: deep_bench is missing there, or another one; or NumPy is.
            Unsupported: It speaks another version of the protocol, or cannot be stopped while others are timed.
        """
        where = f"{label}: the environment {self.name}"
        if said["problem"]:
            advice = "" if self.lean else "install it there: pip install deep-bench, or name another environment"
            raise InvalidArgument(f"{where} ({said['python']}): {said['problem']}", advice=advice)
        if said["protocol"] != PROTOCOL:
            raise Unsupported(
                f"{where} speaks version {said['protocol']} of the protocol between environments, this one {PROTOCOL}",
                "the same version on both sides",
                f"install deep-bench {deep_bench.__version__} there",
            )
        remark = "" if self.lean else self._other_source(said)
        if remark and not self.any_source:
            raise InvalidArgument(
                f"{where}: {remark}",
                "the same deep_bench on both sides: else more than the framework differs",
                "install this one there; or allow it: DEEP_BENCH_ANY_SOURCE=1, or `any_source: true` where it is declared",
            )
        if _group_of(said["pid"]) != group:
            raise Unsupported(
                f"{where}: its process is not among those that the command started: it cannot be stopped for others",
                "a command that runs Python in its own place, or as its child",
                "use `apptainer exec`, say; a client that asks a daemon, such as `docker run`, does not do",
            )
        details = {n: said[n] for n in ("python", "packages", "deep_bench", "source") if said.get(n) is not None}
        return {"name": self.name, **details, **self.facts, **({"remark": remark} if remark else {})}

    @staticmethod
    def _other_source(report: Mapping[str, Any]) -> str:
        if report["deep_bench"] != deep_bench.__version__:
            return f"it has deep_bench {report['deep_bench']}, and this one {deep_bench.__version__}"
        if report["folder"] == greeting.identity(PACKAGE):
            return ""
        ours = greeting.digest(PACKAGE)
        if report["source"] != ours:
            return f"its deep_bench differs from this one (source {str(report['source'])[:12]} there, {ours[:12]} here)"
        return ""


def greeted(end: socket.socket, label: str, limit_s: float | None) -> dict[str, Any]:
    """What the worker at the other end says of itself.

    Raises:
        EOFError: It ended before.
        TimeoutError: It said nothing for so long.
        InvalidArgument: What it said is no greeting.
    """
    until = None if limit_s is None else time.monotonic() + limit_s
    mark, count = greeting.LENGTH.unpack(_exactly(end, greeting.LENGTH.size, until))
    if mark != greeting.GREETING or count > _MOST_BYTES:
        raise InvalidArgument(f"{label}: what was started says {mark!r}", "a worker of deep_bench")
    content = _exactly(end, count, until)
    try:
        report: dict[str, Any] = json.loads(content)
    except ValueError as error:
        raise InvalidArgument(f"{label}: what was started says {content[:80]!r}", "a worker of deep_bench") from error
    return report


def _exactly(end: socket.socket, count: int, until: float | None) -> bytes:
    buffer = b""
    while len(buffer) < count:
        remaining = None if until is None else max(until - time.monotonic(), 0.0)
        if not select.select([end], [], [], remaining)[0]:
            raise TimeoutError
        part = end.recv(count - len(buffer))
        if not part:
            raise EOFError
        buffer += part
    return buffer


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
