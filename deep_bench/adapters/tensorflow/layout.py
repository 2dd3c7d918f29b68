"""Where the channels are: values that know their layout, and native code that passes it on.

ONNX puts channels after the batch ("first"); TensorFlow's CPU kernels want them at the end ("last"). While a network is
traced, each value carries the layout it was made in and is converted at most once, and only where somebody asks for the
other one. So a chain of layout-aware operators needs transposes at its two ends only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

Perm = tuple[int, ...]

_UNWRITABLE = (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float4_e2m1fn)
"""Element types that TensorFlow has tensors of, but does not write into a graph itself: see `_written`."""


def to_last(rank: int) -> Perm:
    """The permutation from channels-first to channels-last.

    Example:
        >>> to_last(4)
        (0, 2, 3, 1)
    """
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> Perm:
    """The permutation from channels-last to channels-first.

    Example:
        >>> to_first(4)
        (0, 3, 1, 2)
    """
    return (0, rank - 1, *range(1, rank - 1))


def axis_in_last(axis: int, rank: int) -> int:
    """Where an ONNX axis lies in the channels-last layout.

    Example:
        >>> [axis_in_last(a, 4) for a in (0, 1, 2, -1)]
        [0, 3, 1, 2]
    """
    return to_first(rank)[axis]


def permute(tensor: Any, perm: Sequence[int]) -> Any:
    """A transposed tensor; a reshaped one where only dimensions of size one move, since that copies nothing."""
    shape = tensor.shape.as_list()
    moved = [p for p in perm if shape[p] != 1]
    if moved == sorted(moved) and shape.count(None) <= 1:
        return (
            tensor
            if list(perm) == sorted(perm)
            else tf.reshape(tensor, [-1 if shape[p] is None else shape[p] for p in perm])
        )
    return tf.transpose(tensor, perm)


class Value:
    """A traced value in the layout it was made in, converted to the other one at most once.

    Args:
        tensor: A tensor, a tuple of values where ONNX has a sequence, or ``None`` for an empty optional value.
        last: Whether it is channels-last.
    """

    __slots__ = ("_other", "last_made", "tensor")

    def __init__(self, tensor: Any, *, last: bool = False) -> None:
        self.tensor = tensor
        self.last_made = last
        self._other: Any = None

    @property
    def is_empty(self) -> bool:
        """Whether it is an empty optional value."""
        return self.tensor is None

    @property
    def dtype(self) -> np.dtype | None:
        """The element type, of a tensor."""
        if self.tensor is None or isinstance(self.tensor, tuple):
            return None
        return np.dtype(object) if self.tensor.dtype == tf.string else np.dtype(self.tensor.dtype.as_numpy_dtype)

    @property
    def rank(self) -> int | None:
        """The number of dimensions, if known."""
        return None if self.dtype is None else self.tensor.shape.rank

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The dimensions as ONNX lays them out, as far as they are known."""
        if self.rank is None:
            return None
        dims = self.tensor.shape.as_list()
        return tuple(dims[a] for a in to_first(len(dims))) if self.last_made else tuple(dims)

    @property
    def first(self) -> Any:
        """The tensor as ONNX lays it out."""
        if not self.last_made:
            return self.tensor
        if self._other is None:
            self._other = permute(self.tensor, to_first(self.tensor.shape.rank))
        return self._other

    def last(self, rank: int | None = None) -> Any:
        """The tensor channels-last, as broadcast against one of ``rank`` dimensions; as it is where it has one element."""
        tensor_rank = self.tensor.shape.rank
        if self.last_made and rank in (None, tensor_rank):
            return self.tensor
        if rank is not None and self.first.shape.num_elements() == 1:
            return self.first
        if rank in (None, tensor_rank):
            if self._other is None:
                self._other = permute(self.tensor, to_last(tensor_rank))
            return self._other
        return permute(with_rank(self.first, rank), to_last(rank))

    def form(self, perm: Perm, shape: tuple[int, ...] | None = None) -> Any:
        """The tensor, first reshaped to ``shape``, then transposed: for filters, which are stored like that."""
        return permute(self.first if shape is None else tf.reshape(self.first, shape), perm)

    def fresh(self) -> Value:
        """The same value without what was converted: a conversion belongs to the graph it was made in."""
        return Value(self.tensor, last=self.last_made)


class StoredValue(Value):
    """A constant or parameter, kept in each form that is asked for, so that no call converts it.

    Args:
        name: Its name.
        array: Its contents, in ONNX's layout.
        variable: Whether it may be assigned between calls.
    """

    __slots__ = ("_constants", "array", "name", "variables")

    def __init__(self, name: str, array: np.ndarray, *, variable: bool = False) -> None:
        super().__init__(None)
        self.name = name
        self.array = array
        self.variables: dict[tuple, tf.Variable] | None = {} if variable else None
        self._constants: dict[tuple, Any] = {}

    @property
    def is_empty(self) -> bool:
        """A constant is no optional value."""
        return False

    @property
    def dtype(self) -> np.dtype | None:
        """The element type."""
        return self.array.dtype

    @property
    def rank(self) -> int | None:
        """The number of dimensions."""
        return self.array.ndim

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The dimensions."""
        return self.array.shape

    @property
    def first(self) -> Any:
        """The tensor as ONNX lays it out."""
        return self.form(tuple(range(self.array.ndim)))

    def last(self, rank: int | None = None) -> Any:
        """The tensor channels-last, as broadcast against one of ``rank`` dimensions."""
        rank = rank or self.array.ndim
        if self.array.size == 1 and rank != self.array.ndim:
            return self.first
        return self.form(to_last(rank), (1,) * (rank - self.array.ndim) + self.array.shape)

    def form(self, perm: Perm, shape: tuple[int, ...] | None = None) -> Any:
        """The contents reshaped to ``shape`` and transposed."""
        key = (perm, self.array.shape if shape is None else shape)
        if self.variables is None:
            return self._constant(key)
        if key not in self.variables:
            with tf.init_scope():
                current = self.assigned().numpy() if self.variables else self.array
                # A variable that a trace "lifts" makes tf.function trace everything a second time.
                self.variables[key] = tf.Variable(_arranged(current, key), experimental_enable_variable_lifting=False)
        return self.variables[key].read_value()

    def assigned(self) -> Any:
        """The parameter's present contents, in ONNX's layout."""
        if not self.variables:
            return tf.constant(self.array)
        form, variable = next(iter(self.variables.items()))
        return self.in_onnx(variable.read_value(), form)

    def in_onnx(self, tensor: Any, form: tuple) -> Any:
        """A tensor in one of the parameter's forms (its contents, or their gradient) in ONNX's layout."""
        plain = permute(tensor, [int(p) for p in np.argsort(form[0])])
        return plain if plain.shape == self.array.shape else tf.reshape(plain, self.array.shape)

    def assign(self, tensor: Any) -> None:
        """Change a parameter, in all forms of it that are in use."""
        self.array = np.broadcast_to(np.zeros((), self.array.dtype), self.array.shape) if self.variables else tensor.numpy()
        for (perm, shape), variable in (self.variables or {}).items():
            plain = tensor if tensor.shape == shape else tf.reshape(tensor, shape)
            variable.assign(permute(plain, perm))

    def fresh(self) -> Value:
        """Itself: what it holds belongs to no graph."""
        return self

    def _constant(self, key: tuple) -> Any:
        array = _arranged(self.array, key)
        if not tf.executing_eagerly():
            return tf.constant(_written(array) if array.dtype.type in _UNWRITABLE else array)
        if key not in self._constants:
            with tf.init_scope():
                self._constants[key] = tf.constant(array)
        return self._constants[key]


def _written(array: np.ndarray) -> tensor_pb2.TensorProto:
    """An array as a graph keeps it: its bytes."""
    return tensor_pb2.TensorProto(
        dtype=tf.as_dtype(array.dtype).as_datatype_enum,
        tensor_shape=tf.TensorShape(array.shape).as_proto(),
        tensor_content=array.tobytes(),
    )


def _arranged(array: np.ndarray, key: tuple) -> np.ndarray:
    perm, shape = key
    return np.array(array.reshape(shape).transpose(perm), order="C") if shape else array


def with_rank(tensor: Any, rank: int) -> Any:
    """The tensor with leading dimensions of size one, up to ``rank``."""
    for _ in range(rank - tensor.shape.rank):
        tensor = tf.expand_dims(tensor, 0)
    return tensor


def on_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark native code as taking and giving `Value` objects, instead of tensors in ONNX's layout."""
    function.takes_values = True  # type: ignore[attr-defined]
    return function


def apply(function: Callable[..., Any], values: Sequence[Value | None]) -> tuple[Value, ...]:
    """Call native code of either kind on values."""
    if getattr(function, "takes_values", False):
        result = function(*values)
        return result if isinstance(result, tuple) else (result,)
    return wrapped(function(*(None if v is None else v.first for v in values)), last=False)


def wrapped(result: Any, *, last: bool) -> tuple[Value, ...]:
    """Native code's result as values."""
    results = result if isinstance(result, tuple) else (result,)
    return tuple(Value(r, last=last) for r in results)


def is_last(value: Value | None, rank: int | None = None) -> bool:
    """Whether a value is channels-last (and has ``rank`` dimensions)."""
    return value is not None and value.last_made and rank in (None, value.rank)


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Native code that broadcasts its inputs: in channels-last as soon as its largest input is."""

    @on_values
    def run(*values: Value | None) -> tuple[Value, ...]:
        ranks = [v.rank for v in values if v is not None]
        rank = max((r for r in ranks if r is not None), default=0)
        if None not in ranks and any(is_last(v, rank) for v in values):
            return wrapped(function(*(None if v is None else v.last(rank) for v in values)), last=True)
        return wrapped(function(*(None if v is None else v.first for v in values)), last=False)

    return run


def channels_last(
    function: Callable[..., Any],
    forms: Mapping[int, Perm] | None = None,
    *,
    shapes: Mapping[int, tuple[int, ...]] | None = None,
) -> Callable[..., Any]:
    """Native code whose first input and results are channels-last.

    Args:
        function: Takes the tensors.
        forms: How other inputs are transposed before they are given to it (filters).
        shapes: To which shape they are reshaped before that.
    """
    forms = forms or {}
    shapes = shapes or {}
    known_rank = max((len(p) for p in forms.values()), default=0)

    def tensor(index: int, value: Value | None) -> Any:
        if value is None:
            return None
        if index == 0:
            if value.rank is None:
                value = Value(tf.ensure_shape(value.first, [None] * known_rank))
            return value.last()
        return value.form(forms[index], shapes.get(index)) if index in forms else value.first

    @on_values
    def run(*values: Value | None) -> tuple[Value, ...]:
        return wrapped(function(*(tensor(i, v) for i, v in enumerate(values))), last=True)

    return run


def either(
    make: Callable[[Callable[[int], int]], Callable[..., Any]],
    *,
    follows: Callable[[int], bool] | None = None,
    inputs: int | None = 1,
    keeps: bool = True,
) -> Callable[..., Any]:
    """Native code that works along axes, in whichever layout its first input is.

    Args:
        make: Given a function from an ONNX axis to the axis in the layout at hand, returns the code for it.
        follows: Whether it can work channels-last, given the rank; default: always.
        inputs: How many leading inputs have the layout (``None``: all); the rest are taken as ONNX lays them out.
        keeps: Whether the results are channels-last as well.
    """

    @on_values
    def run(*values: Value | None) -> tuple[Value, ...]:
        shaped = values if inputs is None else values[:inputs]
        rank = shaped[0].rank if shaped and shaped[0] is not None else None
        last = rank is not None and any(is_last(v, rank) for v in shaped) and (follows is None or follows(rank))
        if rank is None or not last:
            return wrapped(make(lambda axis: axis)(*(None if v is None else v.first for v in values)), last=False)
        tensors = [None if v is None else (v.last(rank) if i < len(shaped) else v.first) for i, v in enumerate(values)]
        return wrapped(make(lambda axis: axis_in_last(axis, rank))(*tensors), last=keeps)

    return run
