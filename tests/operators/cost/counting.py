"""Arithmetic that counts itself: arrays for the reference, and numbers for definitions spelled out in loops."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from deep_bench.operators.cost import Work

FLOPS = {"add", "subtract", "multiply", "divide", "square", "reciprocal"}
SEVERAL = {"fmod": 3, "remainder": 3}
SPECIAL = {
    *("exp", "expm1", "log", "log1p", "sqrt", "power", "float_power", "erf", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"),
}
COMPARISONS = {"maximum": 1, "minimum": 1, "greater": 1, "greater_equal": 1, "less": 1, "less_equal": 1, "equal": 1,
               "not_equal": 1, "sign": 1, "clip": 2, "isnan": 1, "isinf": 1}  # fmt: skip
NOTHING = {"negative", "absolute", "floor", "ceil", "rint", "trunc", "isfinite", "signbit"}


class Tally:
    """What was counted so far."""

    def __init__(self) -> None:
        self.work = Work()

    def add(self, name: str, count: int) -> None:
        if name in FLOPS:
            self.work += Work(flops=count)
        elif name in SEVERAL:
            self.work += Work(flops=SEVERAL[name] * count)
        elif name in SPECIAL:
            self.work += Work(special=count)
        elif name in COMPARISONS:
            self.work += Work(comparisons=COMPARISONS[name] * count)
        elif name not in NOTHING:
            raise NotImplementedError(f"how much does {name} count?")


class Counted(np.ndarray):
    """A floating-point array; whatever is computed from it is counted, element by element."""

    tally: Tally

    def __array_finalize__(self, obj: Any) -> None:
        if (tally := getattr(obj, "tally", None)) is not None:
            self.tally = tally

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        tally = _tally((inputs, out))
        if out is not None:
            kwargs["out"] = tuple(_plain(x) for x in out)
        given = [_plain(x) for x in inputs]
        result = getattr(ufunc, method)(*given, **kwargs)
        name = ufunc.__name__
        if name == "matmul":
            tally.work += Work(flops=2 * np.size(result) * given[0].shape[-1])
        elif not any(isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in given):
            pass  # arithmetic on indices
        elif method == "reduce":
            tally.add(name, 0 if kwargs.get("axis") == () else np.size(given[0]))
        elif method == "accumulate":
            tally.add(name, np.size(given[0]))
        elif method == "at":
            tally.add(name, np.size(given[2]))
        elif not _is_idle(name, inputs):
            tally.add(name, np.size(result))
        return out[0] if out is not None else counted(result, tally)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        tally, name = _tally((args, kwargs)), func.__name__
        if name in ("mean", "var"):
            result = func(*_plain(args), **_plain(kwargs))
            # the mean that a variance needs is that of ``mean``: a difference, a square and an addition
            tally.work += Work(flops=(1 if name == "mean" else 3) * np.size(args[0]) + np.size(result))
        elif name in ("sum", "prod", "max", "min", "amax", "amin", "clip"):
            return super().__array_function__(func, types, args, kwargs)
        elif name in ("argmax", "argmin"):
            tally.work += Work(comparisons=np.size(args[0]))
            result = func(*_plain(args), **_plain(kwargs))
        elif name in ("cumsum", "cumprod"):
            tally.work += Work(flops=np.size(args[0]))
            result = func(*_plain(args), **_plain(kwargs))
        elif name == "einsum":
            return _einsum(tally, *args)
        else:
            result = func(*_plain(args), **_plain(kwargs))
        return counted(result, tally)


def _einsum(tally: Tally, equation: str, a: Any, b: Any) -> Any:
    """Two tensors: a product and a sum for each result and each value of the indices that it lacks."""
    result = np.einsum(equation, _plain(a), _plain(b))
    terms, _, kept = equation.replace("...", "").partition("->")
    sizes: dict[str, int] = {}
    for term, x in zip(terms.split(","), (a, b), strict=True):
        sizes |= zip(term, np.shape(x)[np.ndim(x) - len(term) :], strict=True)
    tally.work += Work(flops=2 * np.size(result) * prod(n for index, n in sizes.items() if index not in kept))
    return counted(result, tally)


def counted(x: Any, tally: Tally) -> Any:
    """``x`` with its floating-point arrays counting; others stay as they are."""
    if isinstance(x, tuple | list):
        return type(x)(counted(y, tally) for y in x)
    if not isinstance(x, np.ndarray | np.generic) or x.dtype.kind != "f":
        return x
    y = np.asarray(x).view(Counted)
    y.tally = tally
    return y


def _plain(x: Any) -> Any:
    if isinstance(x, Counted):
        return x.view(np.ndarray)
    if isinstance(x, tuple | list):
        return type(x)(_plain(y) for y in x)
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    return x


def _tally(values: Any) -> Tally:
    found = _find(values)
    assert found is not None
    return found


def _find(values: Any) -> Tally | None:
    if isinstance(values, Counted):
        return values.tally
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, tuple | list):
        return None
    return next((t for t in map(_find, values) if t is not None), None)


def _is_idle(name: str, inputs: tuple[Any, ...]) -> bool:
    """Whether a factor that is 1 or a term that is 0 is written as a number."""
    neutral = {"multiply": 1, "divide": 1, "add": 0, "subtract": 0}
    able = inputs if name in ("multiply", "add") else inputs[1:]
    return name in neutral and any(type(x) in (int, float) and x == neutral[name] for x in able)


class Number:
    """A number that counts what is done with it; for loops that spell a definition out."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    def _count(self, name: str) -> Number:
        self.tally.add(name, 1)
        return self

    def __add__(self, other: Any) -> Number:
        return self._count("add")

    def __sub__(self, other: Any) -> Number:
        return self._count("subtract")

    def __mul__(self, other: Any) -> Number:
        return self._count("multiply")

    def __truediv__(self, other: Any) -> Number:
        return self._count("divide")

    __radd__, __rsub__, __rmul__, __rtruediv__ = __add__, __sub__, __mul__, __truediv__

    def special(self) -> Number:
        """Some elementary function of it."""
        return self._count("exp")

    def max(self, other: Any) -> Number:
        """The larger one."""
        return self._count("maximum")
