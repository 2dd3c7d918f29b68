"""On what something was measured: hardware, system, Python, libraries, settings; and the time that the hypervisor took."""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
from pydantic import BaseModel, ConfigDict

from deep_bench.measure import hardware
from deep_bench.measure.amounts import Count, NotNegative
from deep_bench.measure.hardware import Cache, Disk, Gpu, MemoryModule, NetworkCard

PACKAGES = (
    "deep-bench", "numpy", "scipy", "onnx", "onnx-ir", "ml-dtypes", "torch", "tensorflow", "keras", "onnxruntime",
    "onnxruntime-gpu", "jax", "triton", "mpi4py", "apache-tvm-ffi", "h5py", "protobuf",
)  # fmt: skip
"""The packages whose versions are noted."""

_VARIABLES = re.compile(
    r"(OMP|MKL|OPENBLAS|BLIS|GOTO|VECLIB|NUMEXPR|KMP|GOMP|ORT|TF(?!_CLI)|XLA|ONEDNN|DNNL|TORCH|PYTORCH|ATEN|CUDA|NVIDIA|NCCL|UCX|"
    r"OMPI|PMIX?|PMI|MPICH|I_MPI|SLURM|PBS|LSB|MALLOC|PYTHON(HASHSEED|MALLOC|OPTIMIZE|PATH))(_.*|$)|LD_PRELOAD"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH|API_KEY|JWT|MUNGE", re.IGNORECASE)
_INSTRUCTION_SETS = re.compile(r"sse4_\d|avx.*|fma|f16c|amx_.*|sve.*|asimd.*|neon|bf16|i8mm")


class Environment(BaseModel):
    """The facts of one machine and process; None stands for *unknown*, with the reason in ``unknown``.

    Attributes:
        cpus_allowed: The CPUs that this process may use.
        cpu_limit: How many CPUs' time the cgroup grants; None if it sets no limit.
        memory_limit_bytes: The cgroup's limit; None if it sets none.
        smt: Whether two threads share a core. A virtual machine may hide it.
        governor: The frequency governor of the first allowed CPU.
        turbo: Whether the clock may rise above its base.
        load: The load averages over 1, 5 and 15 minutes.
        blas: What threadpoolctl says of the thread pools loaded in this process.
        variables: The environment variables that matter to threads, precision, MPI and SLURM; never secrets.
        git: ``commit``, ``branch`` and ``dirty`` of the working directory; empty outside a repository.
        sockets: The number of processor packages.
        processor_mhz: The highest clock of the first processor.
        unknown: Fact to the reason why it is unknown.
    """

    model_config = ConfigDict(extra="forbid")
    hostname: str | None = None
    cpu_model: str | None = None
    architecture: str | None = None
    cores: Count | None = None
    logical_cpus: Count | None = None
    cpus_allowed: list[Count] | None = None
    cpu_limit: NotNegative | None = None
    smt: bool | None = None
    numa_nodes: Count | None = None
    instruction_sets: list[str] | None = None
    governor: str | None = None
    turbo: bool | None = None
    memory_bytes: Count | None = None
    memory_available_bytes: Count | None = None
    memory_limit_bytes: Count | None = None
    swap_used_bytes: Count | None = None
    load: list[NotNegative] | None = None
    system: str | None = None
    kernel: str | None = None
    container: str | None = None
    virtual_machine: bool | None = None
    python: str | None = None
    packages: dict[str, str] = {}
    blas: list[dict[str, str | int | None]] | None = None
    variables: dict[str, str] = {}
    git: dict[str, str | bool] | None = None
    gpus: list[Gpu] | None = None
    sockets: Count | None = None
    processor_mhz: NotNegative | None = None
    caches: list[Cache] | None = None
    disks: list[Disk] | None = None
    network_cards: list[NetworkCard] | None = None
    memory_modules: list[MemoryModule] | None = None
    unknown: dict[str, str] = {}


def capture() -> Environment:
    """Note the environment; takes well under half a second, imports no framework, and never fails for want of a fact."""
    facts: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name, find in _FACTS.items():
        try:
            facts[name] = find()
        except Exception as error:  # files, drivers and libraries fail in their own ways; the reason is kept
            unknown[name] = f"{type(error).__name__}: {error}"
    return Environment(**facts, unknown=unknown)


class StealMeter:
    """How much CPU time the hypervisor gave to others between the meter's making and its reading.

    Example:
        >>> meter = StealMeter()
        >>> meter.share() is None or 0 <= meter.share() <= 1
        True
    """

    def __init__(self) -> None:
        self._begin = _cpu_times()

    def share(self) -> float | None:
        """Stolen time over all CPU time, idle included; None where the system does not count it."""
        cpu_times = _cpu_times()
        if self._begin is None or cpu_times is None:
            return None
        total = cpu_times[1] - self._begin[1]
        return max(cpu_times[0] - self._begin[0], 0.0) / total if total > 0 else 0.0


def _cpu_times() -> tuple[float, float] | None:
    times = psutil.cpu_times()
    return (times.steal, float(sum(times[:8]))) if hasattr(times, "steal") else None


def _cpuinfo() -> dict[str, str]:
    """The first processor's entries in ``/proc/cpuinfo``."""
    first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0]
    return {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in first.splitlines())}


def _cpu_model() -> str | None:
    if sys.platform == "linux":
        fields = _cpuinfo()
        return fields.get("model name") or fields.get("Model") or fields.get("CPU part")
    from cpuinfo import get_cpu_info  # takes a second: only where there is no /proc

    return get_cpu_info().get("brand_raw")


def _instruction_sets() -> list[str]:
    if sys.platform == "linux":
        fields = _cpuinfo()
        flags = (fields.get("flags") or fields.get("Features") or "").split()
    else:
        from cpuinfo import get_cpu_info

        flags = get_cpu_info().get("flags", [])
    return sorted(f for f in flags if _INSTRUCTION_SETS.fullmatch(f))


def _smt() -> bool:
    active = Path("/sys/devices/system/cpu/smt/active")
    if active.is_file():
        return active.read_text(encoding="ascii").strip() == "1"
    cores, threads = psutil.cpu_count(logical=False), psutil.cpu_count()
    if not cores or not threads:
        raise LookupError("the number of cores is not known")
    return threads > cores


def _governor() -> str:
    cpu = _affinity()[0]
    return Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor").read_text(encoding="ascii").strip()


def _turbo() -> bool:
    intel = Path("/sys/devices/system/cpu/intel_pstate/no_turbo")
    if intel.is_file():
        return intel.read_text(encoding="ascii").strip() == "0"
    return Path("/sys/devices/system/cpu/cpufreq/boost").read_text(encoding="ascii").strip() == "1"


def _affinity() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def _numa_nodes() -> int:
    return len([p for p in Path("/sys/devices/system/node").iterdir() if re.fullmatch(r"node\d+", p.name)])


def _cpu_limit() -> float | None:
    v2, v1 = Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/cpu")
    if v2.is_file():
        quota, period = v2.read_text(encoding="ascii").split()
        return None if quota == "max" else int(quota) / int(period)
    quota_file = v1 / "cpu.cfs_quota_us"
    if not quota_file.is_file():
        return None
    micros = int(quota_file.read_text(encoding="ascii"))
    return None if micros < 0 else micros / int((v1 / "cpu.cfs_period_us").read_text(encoding="ascii"))


def _memory_limit() -> int | None:
    for file in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        if file.is_file():
            text = file.read_text(encoding="ascii").strip()
            return None if text == "max" or int(text) > 2**60 else int(text)
    return None


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.platform()


def _container() -> str | None:
    marks = {"/.dockerenv": "docker", "/run/.containerenv": "podman", "/.singularity.d": "apptainer"}
    return next((kind for mark, kind in marks.items() if Path(mark).exists()), os.environ.get("container"))  # noqa: SIM112


def _packages() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _blas() -> list[dict[str, str | int | None]]:
    import numpy  # noqa: F401 - so that its BLAS is loaded
    from threadpoolctl import threadpool_info

    keys = ("user_api", "internal_api", "version", "num_threads", "threading_layer", "architecture")
    return [{k: pool.get(k) for k in keys} for pool in threadpool_info()]


def relevant(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that change what is measured, without any that may hold a secret."""
    return {k: v for k, v in sorted(variables.items()) if _VARIABLES.match(k) and not _SECRET.search(k)}


def _git() -> dict[str, str | bool]:
    command = ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=0.4, check=False)
    if done.returncode:
        return {}
    lines = done.stdout.splitlines()
    head = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    dirty = any(not line.startswith("#") for line in lines)
    return {"commit": head.get("branch.oid", ""), "branch": head.get("branch.head", ""), "dirty": dirty}


_FACTS: Mapping[str, Callable[[], Any]] = {
    "hostname": socket.gethostname,
    "cpu_model": _cpu_model,
    "architecture": platform.machine,
    "cores": lambda: psutil.cpu_count(logical=False),
    "logical_cpus": psutil.cpu_count,
    "cpus_allowed": _affinity,
    "cpu_limit": _cpu_limit,
    "smt": _smt,
    "numa_nodes": _numa_nodes,
    "instruction_sets": _instruction_sets,
    "governor": _governor,
    "turbo": _turbo,
    "memory_bytes": lambda: psutil.virtual_memory().total,
    "memory_available_bytes": lambda: psutil.virtual_memory().available,
    "memory_limit_bytes": _memory_limit,
    "swap_used_bytes": lambda: psutil.swap_memory().used,
    "load": lambda: list(os.getloadavg()),
    "system": _system,
    "kernel": platform.release,
    "container": _container,
    "virtual_machine": lambda: "hypervisor" in _cpuinfo().get("flags", "").split(),
    "python": lambda: f"{platform.python_implementation()} {platform.python_version()}",
    "packages": _packages,
    "blas": _blas,
    "variables": lambda: relevant(os.environ),
    "git": _git,
    "gpus": hardware.gpus,
    "sockets": hardware.sockets,
    "processor_mhz": hardware.processor_mhz,
    "caches": hardware.caches,
    "disks": hardware.disks,
    "network_cards": hardware.network_cards,
    "memory_modules": hardware.memory_modules,
}
