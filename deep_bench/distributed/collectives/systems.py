"""The communicators that a user names: ``mpi``, ``torch``, ``gloo``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import InvalidArgument

BACKENDS = ("gloo", "nccl")
"""Names of torch's backends, each short for the communicator ``torch`` with it."""


def check_names(names: Sequence[str]) -> None:
    """See that communicators exist, and each is named once. See `opened`."""
    from deep_bench import communicators

    if not names or len(set(names)) < len(names):
        raise InvalidArgument(f"communicators {', '.join(names) or '(none)'}", "at least one, and each once")
    for name in names:
        communicators.require("torch" if name in BACKENDS else name)


@contextmanager
def opened(names: Sequence[str]) -> Iterator[dict[str, Communicator]]:
    """While it lasts, one communicator of each name.

    Args:
        names: Those of `deep_bench.communicators`, or of torch's backends; each once.

    Raises:
        UnknownName, FrameworkMissing: There is no such communicator here.
        InvalidArgument: One is named twice.
    """
    from deep_bench import communicators

    check_names(names)
    by_name: dict[str, Communicator] = {}
    try:
        for name in names:
            by_name[name] = communicators["torch"](backend=name) if name in BACKENDS else communicators[name]()
        yield by_name
    finally:
        for comm in reversed(by_name.values()):
            comm.close()
