"""What oneDNN and oneMKL print of each function that they run, which says the algorithm that they chose.

They print to the standard output of C, and only in a process that was started with variables that ask them to.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from deep_bench.errors import Unsupported

_VERBOSE_VARIABLES = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKL_VERBOSE")
_MKL = re.compile(r"MKL_VERBOSE (\w+)\(")


@contextmanager
def overheard() -> Iterator[Callable[[], tuple[str, ...]]]:
    """Meanwhile standard output goes to a file; what is given tells which functions ran since it was asked before.

    Raises:
        Unsupported: The process was started without the variables.
    """
    if not any(os.environ.get(name, "0") not in ("", "0", "none") for name in _VERBOSE_VARIABLES):
        raise Unsupported(
            f"none of {', '.join(_VERBOSE_VARIABLES)} is set, so that the libraries do not say what they run",
            "a process that was started with them",
            "call deep_bench.network.chosen_algorithms, which starts one",
        )
    libc, saved_stdout = ctypes.CDLL(None), os.dup(1)
    with tempfile.TemporaryFile() as file:
        libc.fflush(None)
        os.dup2(file.fileno(), 1)
        read = 0

        def since() -> tuple[str, ...]:
            nonlocal read
            libc.fflush(None)
            chunk = os.pread(file.fileno(), os.fstat(file.fileno()).st_size - read, read)
            read += len(chunk)
            return tuple(dict.fromkeys(functions(chunk.decode(errors="replace").splitlines())))

        try:
            yield since
        finally:
            libc.fflush(None)
            os.dup2(saved_stdout, 1)
            os.close(saved_stdout)


def functions(lines: Iterable[str]) -> Iterator[str]:
    """The functions that printed lines tell of: library, function, implementation, algorithm and what is fused.

    Example:
        >>> line = "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx2,forward_inference,src:f32 dst:f32"
        >>> list(functions([line + ",attr-post-ops:eltwise_relu,alg:convolution_direct,mb1_ic3,0.1"]))
        ['oneDNN convolution jit:avx2 convolution_direct post-ops:eltwise_relu']
        >>> list(functions(["MKL_VERBOSE SGEMM(N,N,64,64,64,0x7f) 23.62us CNR:OFF", "MKL_VERBOSE oneMKL 2024.0"]))
        ['oneMKL SGEMM']

    Source:
        oneDNN, developer guide, Verbose Mode; oneMKL, developer guide, Using oneMKL Verbose Mode.
    """
    for line in lines:
        fields = line.split(",")
        if fields[0] in ("onednn_verbose", "dnnl_verbose") and "exec" in fields and "graph" not in fields:
            after = fields[fields.index("exec") + 2 :]
            words = [word for field in after for word in field.split()]
            details = [
                w.removeprefix("alg:").removeprefix("attr-") for w in words if w.startswith(("alg:", "attr-post-ops:"))
            ]
            yield " ".join(["oneDNN", *filter(None, after[:2]), *reversed(details)])
        elif match := _MKL.match(line):
            yield f"oneMKL {match[1]}"
