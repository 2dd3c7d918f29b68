"""Schemes as they are written on a command line: ``decentralised:topology=ring``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeAlias

import yaml

from deep_bench import distributed_optimizers
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.training.optimizer import Optimizer

Around: TypeAlias = Callable[[Optimizer[Any, Any], Communicator], DistributedOptimizer[Any, Any]]
"""From a rule and the ranks to a scheme."""


def scheme_of(text: str) -> Around:
    """What makes the scheme of a name with settings, ``name:setting=value,…``; values are read as in YAML.

    Raises:
        UnknownName: No such scheme, or one without this setting.
        InvalidArgument: No ``setting=value``, or one twice.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.distributed.communicators.local import LocalCommunicator
        >>> scheme_of("allreduce:bucket=1048576")(db.optimizers["sgd"](lr=0.1), LocalCommunicator()).bucket
        1048576
    """
    kind, settings = settings_of(text)

    def around(inner: Optimizer[Any, Any], comm: Communicator) -> DistributedOptimizer[Any, Any]:
        made: DistributedOptimizer[Any, Any] = kind(inner, comm, **settings)
        return made

    return around


def settings_of(text: str) -> tuple[Any, dict[str, Any]]:
    """The class of a scheme, and its settings; see `scheme_of`.

    Example:
        >>> settings_of("allreduce:overlap=true")[1]
        {'overlap': True}
    """
    name, colon, rest = text.partition(":")
    kind = distributed_optimizers[name]
    pairs = [part.partition("=") for part in rest.split(",")] if colon else []
    if any(not setting or not value for setting, _, value in pairs):
        raise InvalidArgument(f"settings {rest!r} of {name}", "setting=value, separated by commas")
    known = [one.name for one in fields(kind) if one.init and one.name not in ("inner", "comm")]
    settings: dict[str, Any] = {}
    for setting, _, value in pairs:
        if setting not in known:
            raise UnknownName(f"setting of {name}", setting, known)
        if setting in settings:
            raise InvalidArgument(f"{setting} more than once in {text!r}", "each setting once")
        settings[setting] = yaml.safe_load(value)
    return kind, settings
