"""Ranks that are processes under MPI, by mpi4py."""

from deep_bench.adapters.mpi.communicator import MpiCommunicator

__all__ = ["MpiCommunicator"]
