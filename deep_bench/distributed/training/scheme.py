"""Schemes as they are written on a command line: ``decentralised:topology=ring``, ``mymodule:MyScheme:factor=2``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeAlias

import yaml

from deep_bench import distributed_optimizers
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.errors import DeepBenchError, InvalidArgument, UnknownName
from deep_bench.training.optimizer import Optimizer

Around: TypeAlias = Callable[[Optimizer[Any, Any], Communicator], DistributedOptimizer[Any, Any]]
"""From a rule and the ranks to a scheme."""

_PATH = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*(?=:|$)")
"""An import path, ``package.module:attribute``, which settings may follow."""


def scheme_of(text: str) -> Around:
    """What makes the scheme of a name with settings, ``name:setting=value,…``; values are read as in YAML.

    A scheme that is not registered is named by its import path, ``package.module:attribute:setting=value,…``.

    Raises:
        UnknownName: No such scheme, or one without this setting.
        InvalidArgument: No ``setting=value``, or one twice; or a path with no scheme behind it.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.distributed.communicators.local import LocalCommunicator
        >>> scheme_of("allreduce:bucket=1048576")(db.optimizers["sgd"](lr=0.1), LocalCommunicator()).bucket
        1048576
    """
    kind, settings = settings_of(text)

    def around(inner: Optimizer[Any, Any], comm: Communicator) -> DistributedOptimizer[Any, Any]:
        optimizer: DistributedOptimizer[Any, Any] = kind(inner, comm, **settings)
        return optimizer

    return around


def settings_of(text: str) -> tuple[Any, dict[str, Any]]:
    """The class of a scheme, and its settings; see `scheme_of`.

    Example:
        >>> settings_of("allreduce:overlap=true")[1]
        {'overlap': True}
    """
    name = name_of(text)
    kind, colon, tail = _kind_of(name), text[len(name) :][:1], text[len(name) + 1 :]
    pairs = [part.partition("=") for part in tail.split(",")] if colon else []
    if any(not setting or not value for setting, _, value in pairs):
        raise InvalidArgument(f"settings {tail!r} of {name}", "setting=value, separated by commas")
    setting_names = [field.name for field in fields(kind) if field.init and field.name not in ("inner", "comm")]
    settings: dict[str, Any] = {}
    for setting, _, value in pairs:
        if setting not in setting_names:
            raise UnknownName(f"setting of {name}", setting, setting_names)
        if setting in settings:
            raise InvalidArgument(f"{setting} more than once in {text!r}", "each setting once")
        settings[setting] = yaml.safe_load(value)
    return kind, settings


def name_of(text: str) -> str:
    """The name, or the import path, of a scheme without its settings.

    Example:
        >>> name_of("allreduce:overlap=true"), name_of("mine.schemes:Ring:every=2"), name_of("mine:Ring")
        ('allreduce', 'mine.schemes:Ring', 'mine:Ring')
    """
    first, path = text.partition(":")[0], _PATH.match(text)
    return path[0] if path and first not in distributed_optimizers else first


def _kind_of(name: str) -> type[DistributedOptimizer[Any, Any]]:
    try:
        kind = distributed_optimizers[name]
    except DeepBenchError:
        raise
    except Exception as error:  # whatever a module raises that is imported by its path
        raise InvalidArgument(
            f"distributed optimizer {name!r} cannot be imported: {type(error).__name__}: {error}", "a module that can be"
        ) from error
    if not isinstance(kind, type) or not issubclass(kind, DistributedOptimizer):
        raise InvalidArgument(f"distributed optimizer {name!r}: {kind!r}", "a subclass of DistributedOptimizer")
    return kind
