"""The system's cache of files: taking files out of it, so that the next read comes from the disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path


def drop(files: Sequence[Path]) -> None:
    """Ask the system to forget what it has of these files; what is mapped or not yet written stays.

    Source:
        posix_fadvise(2), POSIX_FADV_DONTNEED.
    """
    for file in files:
        number = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(number)


def why_not(files: Sequence[Path]) -> str:
    """Why these files cannot be taken out of the cache; empty if they can, as trying the first of them shows.

    Source:
        preadv2(2), RWF_NOWAIT: only what is in the cache is read.
    """
    if not files:
        return "it has no files"
    if not hasattr(os, "posix_fadvise") or not hasattr(os, "RWF_NOWAIT"):
        return "this system has no call for it"
    file = max(files, key=os.path.getsize)
    os.sync()
    drop([file])
    number = os.open(file, os.O_RDONLY)
    try:
        cached_bytes = os.preadv(number, [bytearray(1)], os.path.getsize(file) // 2, os.RWF_NOWAIT)
    except BlockingIOError:
        return ""
    except OSError as error:
        return f"whether its file system does it cannot be seen ({errno.errorcode.get(error.errno or 0, error.strerror)})"
    finally:
        os.close(number)
    return "its file system keeps it in memory" if cached_bytes else "its files are empty"
