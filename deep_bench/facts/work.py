"""What a cost counts in: the arithmetic that an operator's definition asks for, from the shapes of its inputs."""

from __future__ import annotations

from dataclasses import dataclass

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
