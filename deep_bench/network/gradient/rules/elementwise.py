"""Arithmetic on each element: the sum of the gradient over what broadcasting repeated."""

from __future__ import annotations

__all__ = ["Abs", "Add", "Div", "Exp", "Identity", "Log", "Mul", "Neg", "Reciprocal", "Sqrt", "Sub", "Sum"]


def Identity(at, x):
    return at.dy


def Add(at, a, b):
    return at.op.sum_to(at.dy, a), at.op.sum_to(at.dy, b)


def Sum(at, *inputs):
    return [at.op.sum_to(at.dy, x) for x in inputs]


def Sub(at, a, b):
    return at.op.sum_to(at.dy, a), at.op.sum_to(-at.dy, b)


def Mul(at, a, b):
    return at.op.sum_to(at.dy * b, a), at.op.sum_to(at.dy * a, b)


def Div(at, a, b):
    da = at.dy / b
    return at.op.sum_to(da, a), at.op.sum_to(-da * at.y, b)


def Neg(at, x):
    return -at.dy


def Abs(at, x):
    return at.dy * at.op.Sign(x)


def Exp(at, x):
    return at.dy * at.y


def Log(at, x):
    return at.dy / x


def Sqrt(at, x):
    return at.dy / (at.y + at.y)


def Reciprocal(at, x):
    return -at.dy * at.y * at.y
