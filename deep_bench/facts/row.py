"""What a cost counts in: the arithmetic that an operator's definition asks for, from the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from deep_bench.facts.rules import AxesRule, DrawRule, GrowthRule, SampleRule, ShapedCase, squares

Shape = tuple[int, ...]


class Unknown(Exception):
    """A count that needs the contents of an input that are not at hand."""


@dataclass(frozen=True, slots=True)
class Work:
    """The arithmetic that an operator's definition asks for.

    Additions, subtractions, multiplications and divisions of elements count one FLOP each, so that a multiplication with an
    addition is two. A sum of n products counts 2 n and a sum of n terms n, as if it began at zero. Changes of sign, absolute
    values, roundings to whole numbers, conversions and everything done to indices count nothing; neither does a factor
    that is 1 or a term that is absent. Integers count like floating-point numbers.

    Args:
        flops: Additions, subtractions, multiplications and divisions.
        special: Elementary functions: ``exp``, ``log``, ``sqrt``, ``sin``, ``tanh``, ``erf``, powers and their kin
            (``expm1`` and ``log1p`` as one). What one of them costs in FLOPs differs between machines: they count apart.
        comparisons: Maxima, minima and comparisons.

    Example:
        >>> Work(flops=2) * 3 + Work(special=1)
        Work(flops=6, special=1, comparisons=0)
    """

    flops: int = 0
    special: int = 0
    comparisons: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.special + other.special, self.comparisons + other.comparisons)

    def __mul__(self, count: int) -> Work:
        return Work(self.flops * count, self.special * count, self.comparisons * count)


def broadcast(*shapes: Shape) -> Shape:
    """The shape that several are broadcast to.

    Example:
        >>> broadcast((2, 1, 4), (3, 1))
        (2, 3, 4)
    """
    rank = max(map(len, shapes), default=0)
    columns = zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True)
    return tuple(next((size for size in column if size != 1), 1) for column in columns)


@dataclass(frozen=True)
class Fans:
    """How many terms a weight's product sums.

    Args:
        fan_in: In each element of the result.
        fan_out: In each element of the gradient by what comes in.
    """

    fan_in: float
    fan_out: float


Weighed = tuple[np.ndarray, Fans]
"""The positions of a weight's elements as (blocks, out, in), and the terms that are summed."""


Layout = Callable[[np.ndarray, Mapping[str, Any]], Weighed]
"""From the positions of a weight's elements, in its shape, and the attributes of the node to how they lie."""


def blocks(matrices: np.ndarray, fan_in: float | None = None, fan_out: float | None = None) -> Weighed:
    """Of matrices [blocks, out, in]; by default as many terms are summed as a row or a column has elements."""
    _, out, into = matrices.shape
    return matrices, Fans(into if fan_in is None else fan_in, out if fan_out is None else fan_out)


ParameterKind = Literal["bias", "embedding", "mean", "recurrent", "scale", "slope", "state", "variance"]

Allowance = Callable[[Sequence[Any], Mapping[str, Any], np.ndarray], Any]
"""From a node's inputs in float64, its attributes and one of its outputs to an amplitude, of an element or of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFacts:
    """A row: what the library knows of an operator besides how it is computed. A row states what differs from the defaults.

    An input is named by its position from 0, or by the name that the operator's schema has for it.

    Args:
        cost: The arithmetic, a function of the inputs' shapes by position (``None`` for an absent one) and of attributes by
            keyword; ``y`` is the shape of the first output, and ``values`` are the contents of the inputs, as far as they
            are known. It names those that it reads only; `Work` itself is a rule: there is none. Default: it is unknown.
            In FLOPs, comparisons and elementary functions. Source: the operator's definition, or as the function says.
        traffic: What must be moved, in bytes. ``"all"``: each input and output once; ``"picked"``: of the first input only
            as much as is returned; ``"none"``: nothing, since the result is the same elements in the same order, or small.
            Source: Williams, Waterman and Patterson, Roofline, Comm. ACM 52 (2009), on compulsory memory traffic.
        settings: The inputs that set it up (shapes, indices, trip counts, scales) instead of being computed with: they have
            no rounding errors. Default: none.
        constants: The names of the inputs that decide what shape its result has, or what it does: numbers drawn for them
            mean nothing, so a case has constants there. Default: none.
        initializer_settings: The inputs that set it up, or hold running statistics, as far as an initializer that feeds
            nothing else is no parameter of a network. Default: none.
        choices: Attribute to the texts that it may be, between blanks; the schema names them in prose only. Default: any.
        learnt: The inputs where an initializer of a single element is a weight, bias, scale or slope, and no constant of a
            formula. Default: none.
        adds_bias: Whether what is added to its result is a bias.
        roles: Input to what a parameter does there: ``"bias"``, ``"embedding"``, ``"mean"``, ``"recurrent"``, ``"scale"``,
            ``"slope"``, ``"state"``, ``"variance"``. Default: none that is known.
        weights: Input to how the elements of a weight lie there; see `deep_bench.facts.row`. Default: it has no weights.
        index_input: The input that indexes others; labels of a loss index the scores of the classes. Default: none.
        index_arithmetic: Whether shapes and indices are computed with it; a result of any other operator is data.
        passes: ``"each"``: it gives every number on as it is; ``"some"``: numbers are given on among others, or repeated.
        alike: Where the standard's inference does not know the results' types: from the number of outputs to pairs of an
            output and the input that it is like. Default: the standard knows.
        float32_body: Whether the standard's body of it computes parts in float32, whatever the type of the inputs.
        casts: Whether it is a change of the element type and nothing else.
        stashes: Whether ``stash_type``, by default float32, is what it computes its statistics in.
        states_type: Whether it states the element type of its result, or its meaning.
        random: Whether every result is drawn at random.
        stepped: Whether its floating-point results jump, so that rounding may decide between two of them.
        multiplies: Whether it adds up products of its first two inputs, which hardware may round to a narrower format.
        allowance: The amplitude of the error that is allowed beyond that of its reference's operations, in units of the
            working format's roundoff. 1: results are bounded by 1, and kernels approximate them to a rounding of 1.
        draws: Input to its draw, where not any number will do; or a function of case and position. Default: ``"normal"``.
        growth: How large its results become: `deep_bench.facts.rules.Growth` of a case. Default: all is squared and added.
        accumulates_wide: Whether numbers of up to 2 bytes are added up in a wider type, so that all of them may be drawn.
        row_axes: The axis of each input along which a case has samples that have nothing to do with each other. Default:
            they depend on each other, or nobody says.
        by_sample: Whether a node treats each sample of its batch by itself, from its attributes and the number of its
            outputs. Default: it does not.
        defines_special: Whether what it gives for NaN and infinities follows from its formula. Left out are products of an
            infinity and a 0 that the limit of the function avoids, as ``x Φ(x)`` at minus infinity.
        interpolates: Whether how far a NaN spreads depends on whether neighbours of weight 0 are read.
        windowed: Whether of its dimensions only the batch may be empty: no window fits into an image of nothing.
        grows: Whether its results can be far larger than its inputs.
        commutative: Whether its inputs may change places.
        loss: Whether it is a loss of classes, with labels and weights.

    Example:
        >>> OperatorFacts(stepped=True).allowance
        0.0
    """

    cost: Callable[..., Work] | None = None
    traffic: Literal["all", "picked", "none"] = "all"
    settings: tuple[int, ...] = ()
    constants: tuple[str, ...] = ()
    initializer_settings: tuple[int, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    learnt: tuple[int, ...] = ()
    adds_bias: bool = False
    roles: Mapping[int, ParameterKind] = field(default_factory=dict)
    weights: Mapping[int, Layout] = field(default_factory=dict)
    index_input: int | None = None
    index_arithmetic: bool = False
    passes: Literal["each", "some"] | None = None
    alike: Callable[[int], Iterable[tuple[int, int]]] | None = None
    float32_body: bool = False
    casts: bool = False
    stashes: bool = False
    states_type: bool = False
    random: bool = False
    stepped: bool = False
    multiplies: bool = False
    allowance: float | Allowance = 0.0
    draws: Mapping[str, DrawRule] | Callable[[ShapedCase, int], str] = field(default_factory=dict)
    growth: GrowthRule = squares
    accumulates_wide: bool = False
    row_axes: AxesRule | None = None
    by_sample: SampleRule | None = None
    defines_special: bool = False
    interpolates: bool = False
    windowed: bool = False
    grows: bool = False
    commutative: bool = False
    loss: bool = False


def like_first(_: int) -> Iterable[tuple[int, int]]:
    """The first result has the type of the first input."""
    return [(0, 0)]
