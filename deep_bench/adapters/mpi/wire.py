"""Open MPI's count of the bytes that it sends."""

from __future__ import annotations

import os
from ctypes import CDLL, byref, c_int, c_size_t, c_void_p, cast
from functools import cache
from typing import Any

_PVAR_SIZE = 2  # MPI_T_PVAR_CLASS_SIZE in Open MPI's mpi.h
_ENABLED = "OMPI_MCA_pml_monitoring_enable"
_NAME = b"pml_monitoring_messages_size"


class Wire:
    """The bytes that this process has sent to each rank of the world by Open MPI's layer of messages.

    Open MPI counts them where it is started with ``OMPI_MCA_pml_monitoring_enable=1``, those of collective operations too;
    what goes through memory that ranks share, outside of that layer, is not counted. mpi4py does not wrap this part of MPI.

    Source: Bosilca, Foyer, Jeannot, Mercier, Papauré, *Online Dynamic Monitoring of MPI Communications*, Euro-Par 2017;
    MPI 4.0, section 15.3.
    """

    def __init__(self, MPI: Any) -> None:
        self._library = CDLL(MPI.__file__)
        self._world = c_void_p.from_address(MPI._addressof(MPI.COMM_WORLD))
        self._session, self._handle, self._count = c_void_p(), c_void_p(), c_int()
        provided, index = c_int(), c_int()
        self._call("MPI_T_init_thread", MPI.Query_thread(), byref(provided))
        self._call("MPI_T_pvar_get_index", _NAME, _PVAR_SIZE, byref(index))
        self._call("MPI_T_pvar_session_create", byref(self._session))
        world = cast(byref(self._world), c_void_p)
        self._call("MPI_T_pvar_handle_alloc", self._session, index, world, byref(self._handle), byref(self._count))
        self._call("MPI_T_pvar_start", self._session, self._handle)

    @staticmethod
    @cache
    def of(MPI: Any) -> Wire | None:
        """That of this process; ``None`` where nothing is counted."""
        if os.environ.get(_ENABLED, "0") == "0" or MPI.get_vendor()[0] != "Open MPI":
            return None
        try:
            return Wire(MPI)
        except OSError:
            return None

    def sent(self) -> int:
        """The bytes that were sent since the first call of `of`."""
        values = (c_size_t * self._count.value)()
        self._call("MPI_T_pvar_read", self._session, self._handle, values)
        return sum(values)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise OSError(code, f"{name} failed")
