"""To be asked to end: by Ctrl-C, SIGTERM, or the signal that ``mpirun`` passes on without ending the ranks itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deep_bench.training.callbacks.stop_at_signal import Signals


@contextmanager
def asked(told: Callable[[], object]) -> Iterator[None]:
    """Within the block, these signals are a call; see `Signals`. In the main thread only.

    SIGUSR1 is one of them: ``mpirun`` (Open MPI 5.0) kills its ranks 0.2 s after it gets Ctrl-C or SIGTERM, which is too
    soon for most steps; SIGUSR1 it passes on, and waits.

    Args:
        told: Called at the first Ctrl-C or SIGTERM, and at each SIGUSR1; it should note it and no more.

    Example:
        >>> with asked(lambda: print("stop, please")):
        ...     signal.raise_signal(signal.SIGUSR1)
        stop, please
    """
    signals = Signals(told)
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGUSR1, lambda *_: told()) if main else None
    signals.begin()
    try:
        yield
    finally:
        signals.end()
        if main:
            signal.signal(signal.SIGUSR1, before)
