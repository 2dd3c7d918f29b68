"""The environment of a bundle: built clean from its lock, with the deep_bench that made it."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from deep_bench.environments.building import build
from deep_bench.environments.declaration import Declaration
from deep_bench.errors import InvalidRecord, Unsupported
from deep_bench.measure.storage import digest
from deep_bench.repeating import lock
from deep_bench.repeating.manifest import Manifest

_PIN = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.!+-]+")
_VARIABLES = re.compile(
    r"(OMP|MKL|OPENBLAS|BLIS|NUMEXPR)_(NUM_THREADS|PROC_BIND|PLACES|DYNAMIC|SCHEDULE|WAIT_POLICY)|KMP_(AFFINITY|BLOCKTIME)|"
    r"KMP_(DUPLICATE_LIB_OK|INIT_AT_FORK)|MKL_(CBWR|ENABLE_INSTRUCTIONS)|(ONEDNN|DNNL)_MAX_CPU_ISA|TF_NUM_INT(RA|ER)OP_THREADS|"
    r"TF_(ENABLE_ONEDNN_OPTS|DETERMINISTIC_OPS|CPP_MIN_LOG_LEVEL)|NVIDIA_TF32_OVERRIDE|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|"
    r"CUBLAS_WORKSPACE_CONFIG|NCCL_(ALGO|PROTO)|PYTHONHASHSEED|MALLOC_(ARENA_MAX|TRIM_THRESHOLD_|MMAP_THRESHOLD_)"
)
"""What a bundle may set: threads, precision, determinism. Nothing that names a file, which could be loaded or written."""

_MOST_BYTES = 4 * 2**20


def clean(made: Manifest, folder: Path, tell: Callable[[str], object] = lambda _: None) -> Path:
    """The interpreter of a new environment with the exact versions of the lock, built once and kept for the next time.

    Args:
        made: The bundle's manifest.
        folder: Where it was unpacked.
        tell: Told each step, and what pip says.

    Raises:
        Unsupported: The lock is of another kind of system.
        InvalidRecord: The lock has a line that is no exact version.
        InvalidArgument: There is no such Python here.
        WorkerError: A package cannot be installed.
    """
    if made.lock.platform != lock.system():
        came = f"a lock of {made.lock.platform} on {lock.system()}"
        raise Unsupported(came, "the same kind of system", "repeat it in the environment that is here: --here")
    lines = locked(folder / made.lock.file)
    (package,) = made.of("package")
    wheel = (folder / package.path).resolve()
    declaration = Declaration(
        requirements=(*lines, f"deep-bench @ {wheel.as_uri()}"),
        python=_interpreter(made.lock.python),
        deep_bench=False,
    )
    return build(
        f"repeat-{hashlib.sha256(declaration.sha256.encode()).hexdigest()[:12]}", declaration, tell=tell
    ).interpreter


def locked(file: Path) -> list[str]:
    """The lines of a lock: exact versions and nothing else, no address and no option of pip.

    Raises:
        InvalidRecord: There is another line.
    """
    if file.stat().st_size > _MOST_BYTES:
        raise InvalidRecord(f"the lock has {file.stat().st_size} bytes", f"at most {_MOST_BYTES}")
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    for line in lines:
        if not _PIN.fullmatch(line):
            raise InvalidRecord(f"the lock has the line {line[:80]!r}", "name==version")
    return lines


def is_ours(made: Manifest) -> bool:
    """Whether a bundle's deep_bench is this very one."""
    with TemporaryDirectory() as scratch:
        wheel = Path(scratch) / lock.wheel_name()
        lock.write_wheel(wheel)
        return [file.sha256 for file in made.of("package")] == [digest(wheel)]


def variables(made: Manifest, *, here: bool) -> dict[str, str]:
    """The environment variables of a repeated run: this machine's, and those of the bundle that it may set.

    Args:
        made: The bundle's manifest.
        here: Whether it runs in this environment; a clean one is not given what changes another Python than its own.
    """
    names = set(os.environ) if here else set(os.environ) - set(dropped())
    return {name: os.environ[name] for name in names} | may_set(made)


def dropped() -> list[str]:
    """This machine's variables that a clean environment is not given: they change what Python imports, and how it runs."""
    return sorted(name for name in os.environ if name.startswith("PYTHON") or name == "VIRTUAL_ENV")


def may_set(made: Manifest) -> dict[str, str]:
    """The variables that the run had, and that a repetition is given."""
    return {name: value for name, value in made.variables.items() if _VARIABLES.fullmatch(name)}


def not_set(made: Manifest) -> list[str]:
    """The variables that the run had, and that a repetition is not given."""
    return sorted(set(made.variables) - set(may_set(made)))


def _interpreter(version: str) -> str | None:
    """By its minor version: later patches repair, and do not change results that deep_bench takes."""
    minor_version = ".".join(version.split(".")[:2])
    return None if minor_version == f"{sys.version_info.major}.{sys.version_info.minor}" else minor_version
