"""Fresh parameters for a network, by what each of them does in it."""

from __future__ import annotations

from deep_bench.training.initial.initialize import initialize
from deep_bench.training.initial.roles import Role, roles
from deep_bench.training.initial.schemes import SCHEMES, Scheme

__all__ = ["SCHEMES", "Role", "Scheme", "initialize", "roles"]
