"""Transformations of the user's: functions from networks to networks, named by their import path."""

from __future__ import annotations

import difflib
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import deep_bench
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.graph import Network

_EXPECTED = "the import path of a function from Network to Network: my_module:my_function"


def own_function(path: str, known: Collection[str] = ()) -> Callable[..., Any]:
    """Import what ``module:function`` names.

    Args:
        path: The import path.
        known: Names of transformations, one of which may have been meant.

    Raises:
        UnknownName: There is no such module, and its name is nearly that of a transformation.
        InvalidArgument: There is no such module or function, the module cannot be imported, or it is no function.

    Example:
        >>> own_function("deep_bench.network.transform.fold:fold").__name__
        'fold'
    """
    module, _, name = path.partition(":")
    try:
        holder = import_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's module does when it is imported
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise _missing(path, str(error.name), known) from error
        raise InvalidArgument(f"the transformation {path}: importing {module} failed: {_told(error, module)}") from error
    if not hasattr(holder, name):
        near = difflib.get_close_matches(name, vars(holder), n=1)
        file = getattr(holder, "__file__", None) or "the interpreter itself"
        advice = f"did you mean {module}:{near[0]}?" if near else f"the module that was found is {file}"
        raise InvalidArgument(f"the transformation {path}: module {module!r} has no {name!r}", _EXPECTED, advice)
    function = getattr(holder, name)
    if not callable(function):
        raise InvalidArgument(
            f"the transformation {path} is of type {type(function).__name__}, which cannot be called", _EXPECTED
        )
    return function


def apply_own(path: str, network: Network, stated: Mapping[str, str]) -> Network:
    """Call the function that an import path names.

    Args:
        path: The import path.
        network: What it is given.
        stated: Options, as they were written.

    Raises:
        InvalidArgument: It does not take these options, it fails, or it returns something else than a network.
    """
    function = own_function(path)
    _check_options(path, function, network, stated)
    try:
        result = function(network, **stated)
    except (Exception, SystemExit) as error:  # the user's function may fail in any way
        module = path.partition(":")[0]
        raise InvalidArgument(f"the transformation {path} failed: {_told(error, module)}") from error
    if not isinstance(result, Network):
        raise InvalidArgument(f"the transformation {path} returned a {type(result).__name__}", "a deep_bench.Network")
    return result


def _check_options(path: str, function: Callable[..., Any], network: Network, options: Mapping[str, str]) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # some of what is written in C tells nothing; it says for itself what it cannot take
        return
    try:
        signature.bind(network, **options)
    except TypeError as error:
        came = ",".join(f"{k}={v}" for k, v in options.items())
        raise InvalidArgument(
            f"the transformation {path} with {came or 'no options'}: {error}",
            f"options that {path}{signature} has, each once",
        ) from error


def _missing(path: str, module: str, candidates: Collection[str]) -> InvalidArgument | UnknownName:
    if module not in candidates and difflib.get_close_matches(module, candidates, n=1):
        return UnknownName("transformation", module, candidates)
    return InvalidArgument(
        f"the transformation {path}: there is no module {module!r}",
        f"one of {', '.join(sorted(candidates))}; or {_EXPECTED}" if candidates else _EXPECTED,
        "modules are looked for in the folder that the command is run in, and on PYTHONPATH",
    )


def _told(error: BaseException, module: str) -> str:
    """What was raised, and the lines of the user's own code that led there."""
    message = "".join(traceback.format_exception_only(error)).strip()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_theirs(f.filename, module)]
    return "\n".join([message, *(line.rstrip("\n") for line in traceback.format_list(frames))])


def _is_theirs(file: str, module: str) -> bool:
    """Whether a file belongs to the user: to the module that was named, or neither to Python, to a library nor to us."""
    root = module.partition(".")[0]
    home = getattr(sys.modules.get(root), "__file__", None)
    if home is not None and root != deep_bench.__name__:
        named = Path(home)
        if Path(file) == named or (named.name == "__init__.py" and Path(file).is_relative_to(named.parent)):
            return True
    paths = sysconfig.get_paths()
    folders = [
        str(Path(str(deep_bench.__file__)).parent),
        *(paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")),
    ]
    return not file.startswith("<") and not any(Path(file).is_relative_to(folder) for folder in folders)
