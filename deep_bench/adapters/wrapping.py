"""What adapters and wrappers of native code share: options, names of arguments and results, the way back "
"of a forward run."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.tensor import TensorSpec

MOST_THREADS = 4096
"""More than any machine has cores; frameworks crash, or stop without a word, on numbers that the system cannot start."""


def one_of(option: str, value: str | None, allowed: Collection[str]) -> str | None:
    """``value``, if it is allowed or ``None``.

    Raises:
        InvalidArgument: It is neither.
    """
    if value is not None and value not in allowed:
        raise InvalidArgument(f"option {option}={value}", f"one of {', '.join(allowed)}")
    return value


def thread_count(value: int | None) -> int | None:
    """``value``, if it is a possible number of threads or ``None`` (the framework's own choice).

    Raises:
        InvalidArgument: It is no whole number, below one, or more threads than a process can have.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_THREADS):
        raise InvalidArgument(
            f"option threads={value!r}", f"a whole number from 1 to {MOST_THREADS}; this machine has {os.cpu_count()} cores"
        )
    return value


T = TypeVar("T")


def accepts(function: Callable[..., Any], names: Sequence[str]) -> bool:
    """Whether a function has a parameter of each of these names, so that it can be called with keywords.

    Example:
        >>> accepts(lambda image, mask=None: image, ["image"]), accepts(lambda x: x, ["image"])
        (True, False)
    """
    parameters = inspect.signature(function).parameters.values()
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return set(names) <= named


def positional_names(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """The names of a function's first positional parameters, ``self`` aside.

    Raises:
        InvalidArgument: It has fewer, such as a function of ``*args``.

    Example:
        >>> positional_names(lambda image, mask=None: image, 1)
        ('image',)
    """
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(names) < count:
        raise InvalidArgument(
            f"{count} inputs without names for a function of {', '.join(names) or '*args'}",
            "a mapping from name to example, or specs",
            'name them: inputs={"image": …}',
        )
    return tuple(names[:count])


def own_or_given(own: Sequence[str], given: Any, whose: str) -> tuple[str, ...]:
    """What to call inputs that have names: their own, or those given for them in order.

    Args:
        own: Their names.
        given: ``None``; names or specs in order; or a mapping by name, whose order counts unless it has the inputs'
            own names.
        whose: What has the inputs.

    Raises:
        InvalidArgument: Not one name for each input, or one name for two.

    Example:
        >>> own_or_given(["a", "b"], {"b": 1, "a": 2}, "f"), own_or_given(["input_1"], ["image"], "f")
        (('a', 'b'), ('image',))
    """
    if given is None or (isinstance(given, Mapping) and set(given) == set(own)):
        return tuple(own)
    listed = [given] if not isinstance(given, Sequence | Mapping) or isinstance(given, str) else list(given)
    names = [n.name if isinstance(n, TensorSpec) else n for n in listed]
    if len(names) != len(own) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(
            f"{len(names)} inputs for {whose}, which has {len(own)}: {', '.join(own)}", "a name for each, in order"
        )
    return each_once(names, "input", whose)


def each_once(names: Sequence[str], what: str, whose: str) -> tuple[str, ...]:
    """The names of inputs or outputs, each of which stands for one value.

    Args:
        names: The names.
        what: ``"input"`` or ``"output"``.
        whose: What has them.

    Raises:
        InvalidArgument: A name is there twice.

    Example:
        >>> each_once(["y", "loss"], "output", "Net")
        ('y', 'loss')
    """
    for name in names:
        if (count := list(names).count(name)) > 1:
            raise InvalidArgument(f"{count} {what}s of {whose} called {name!r}", f"another name for each {what}")
    return tuple(names)


def result_names(result: Any, names: Sequence[str] | None, whose: str) -> tuple[str, ...]:
    """The names of what a call returned: the stated ones, a mapping's keys, ``output``, or ``output_0``, ``output_1``, …

    Raises:
        InvalidArgument: Another number of results than of names.

    Example:
        >>> result_names((1, 2), None, "f"), result_names(3, ["logits"], "f")
        (('output_0', 'output_1'), ('logits',))
    """
    if names is None:
        if isinstance(result, Mapping):
            return tuple(map(str, result))
        return tuple(f"output_{i}" for i in range(len(result))) if isinstance(result, list | tuple) else ("output",)
    count = len(result) if isinstance(result, Mapping | list | tuple) else 1
    if count != len(names):
        raise InvalidArgument(
            f"{whose} returned {count} values, and {len(names)} names are given: {', '.join(names)}",
            "one name for each",
            "state them in the order in which they are returned: outputs=[…]",
        )
    return tuple(names)


def named_results(result: Any, names: Sequence[str], check: Callable[[Any], bool], whose: str) -> dict[str, Any]:
    """What a call returned, by name; a mapping that has all the names by its keys, anything else in order.

    Args:
        result: One value, or a sequence or mapping of some.
        names: A name for each.
        check: Whether a value is one of the framework's arrays.
        whose: The name of what returned it.

    Raises:
        InvalidArgument: Another number of results.
        Unsupported: A value that is no array.
    """
    if isinstance(result, Mapping):
        by_key = set(map(str, result)) == set(names)
        values = [result[name] for name in names] if by_key else list(result.values())
    else:
        values = list(result) if isinstance(result, list | tuple) else [result]
    if len(values) != len(names):
        raise InvalidArgument(f"{whose} returned {len(values)} values", f"{len(names)}: {', '.join(names)}")
    for name, value in zip(names, values, strict=True):
        if not check(value):
            raise Unsupported(
                f"the output {name!r} of {whose} is a {type(value).__name__}",
                "arrays of its framework, alone or in one sequence or mapping",
                "wrap a function or module that returns these",
            )
    return dict(zip(names, values, strict=True))


def check_mode(mode: str) -> None:
    """Whether a mode is one that executors have.

    Raises:
        InvalidArgument: It is none.
    """
    if mode not in ("inference", "train"):
        raise InvalidArgument(f"mode={mode!r}", "'inference' or 'train'")


Pull = Callable[[Sequence[Any]], tuple[Any, ...]]
"""From the gradients of the outputs to those of the inputs."""


class Remembered:
    """An `Operator.backward` by a framework's own differentiation, which runs the function once for each new inputs.

    So the time of a repeated call is that of the way back alone, as frameworks' own users know it.

    Args:
        run: Runs the function on inputs with attributes, and returns the way back.
        version: Tells whether an array was written into: a number that is another one then.

    Example:
        >>> runs = []
        >>> square = Remembered(lambda inputs, _: runs.append(1) or (lambda grads: (2 * inputs[0] * grads[0],)))
        >>> x = [3.0]
        >>> square([1.0], x, [9.0]), square([2.0], x, [9.0]), len(runs)
        ((6.0,), (12.0,), 1)
    """

    def __init__(
        self, run: Callable[[Sequence[Any], Mapping[str, Any]], Pull], version: Callable[[Any], int] = lambda _: 0
    ) -> None:
        self._run, self._version = run, version
        self._inputs: tuple[Any, ...] = ()
        self._versions: tuple[int, ...] = ()
        self._attributes: Mapping[str, Any] = {}
        self._pull: Pull | None = None

    def __call__(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **attributes: Any
    ) -> tuple[Any, ...]:
        """See `deep_bench.operators.Operator.backward`."""
        del outputs
        versions = tuple(map(self._version, inputs))
        identical = len(inputs) == len(self._inputs) and all(a is b for a, b in zip(inputs, self._inputs, strict=True))
        if self._pull is None or not identical or versions != self._versions or attributes != self._attributes:
            self._pull = self._run(inputs, attributes)
            self._inputs, self._versions, self._attributes = tuple(inputs), versions, attributes
        return self._pull(grads)
