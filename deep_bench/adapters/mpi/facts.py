"""What a report says about MPI."""

from __future__ import annotations

import os
from typing import Any

import psutil

from deep_bench.adapters.mpi.arrays import cuda_aware
from deep_bench.adapters.mpi.begin import level

_FAULT_TOLERANCE = "OMPI_MCA_mpi_ft_enable"
_TRANSPORT = (
    "OMPI_MCA_pml",
    "OMPI_MCA_btl",
    "OMPI_MCA_mtl",
    "UCX_TLS",
    "UCX_NET_DEVICES",
    "FI_PROVIDER",
    "MPIR_CVAR_CH4_NETMOD",
    "MPICH_OFI_NIC_POLICY",
)


def facts(MPI: Any) -> dict[str, str]:
    """The library with its version, and what else matters.

    Args:
        MPI: The module ``mpi4py.MPI``.
    """
    import mpi4py

    library, version = MPI.get_vendor()
    major, minor = MPI.Get_version()
    settings = [f"{name}={os.environ[name]}" for name in _TRANSPORT if name in os.environ]
    return {
        "library": f"{library} {'.'.join(map(str, version))}",
        "standard": f"MPI {major}.{minor}",
        "mpi4py": mpi4py.__version__,
        "threads": level(MPI),
        "transport": ", ".join(settings) or "chosen by the library, which does not tell",
        "cuda_aware": "yes" if cuda_aware(MPI) else "no",
        "host": MPI.Get_processor_name(),
        "launcher": _launcher(),
    }


def tolerates_faults(MPI: Any) -> bool:
    """Whether ranks may be lost: with Open MPI's ULFM, if it was asked for (``mpirun --with-ft ulfm``).

    Args:
        MPI: The module ``mpi4py.MPI``.

    Source: Bland et al., *Post-failure recovery of MPI communication capability*, 2013.
    """
    setting = os.environ.get(_FAULT_TOLERANCE, "0").lower()
    return MPI.get_vendor()[0] == "Open MPI" and setting in ("1", "true", "yes")


def _launcher() -> str:
    """The program that this process was started by, under its name on this host."""
    parent = psutil.Process().parent()
    return "unknown" if parent is None else parent.name()
