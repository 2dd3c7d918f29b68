"""Operators whose results are independent from row to row, and along which axis of each input and output the rows lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case


@dataclass(frozen=True)
class Rows:
    """Where the rows of a case are.

    Args:
        inputs: Input name to the axis along which its rows lie; an input that all rows share is left out.
        outputs: Output name to the axis along which its rows lie.
        count: How many rows there are.
    """

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    count: int

    def cut(self, case: Case, size: int) -> Case:
        """The case with so many rows only."""

        def shorter(argument: Argument | None) -> Argument | None:
            if argument is None or argument.spec.name not in self.inputs:
                return argument
            axis = self.inputs[argument.spec.name]
            shape = tuple(size if k == axis else d for k, d in enumerate(argument.shape))
            return replace(argument, spec=replace(argument.spec, shape=shape))

        return replace(case, arguments=tuple(map(shorter, case.arguments)))


def rows_of(case: Case) -> Rows | None:
    """Where a case has its rows; ``None`` where they depend on each other, or where the operator is not in the table.

    Example:
        >>> rows_of(Case.of("Gemm", (3, 8), (3, 2), transA=1)).inputs
        {'A': 1}
        >>> rows_of(Case.of("Softmax", (8, 2), axis=0)) is None
        True
    """
    rule = _RULES.get(case.operator) if isinstance(case.operator, str) else None
    axes = rule(case) if rule is not None else None
    if not axes:
        return None
    shapes = {a.spec.name: a for a in case.arguments if a is not None}
    if any(shapes[name].value is not None for name in axes):
        return None
    counts = {shapes[name].shape[axis] for name, axis in axes.items()}
    if len(counts) != 1 or (count := counts.pop()) < 2:
        return None
    outputs = {r.name: 0 for r in case.results}
    return Rows(axes, outputs, count) if all(r.shape and r.shape[0] == count for r in case.results) else None


Rule = Callable[[Case], dict[str, int] | None]


def _argument(case: Case, index: int) -> Argument | None:
    return case.arguments[index] if index < len(case.arguments) else None


def _first(case: Case) -> dict[str, int] | None:
    """The first input has the rows; the others are weights."""
    argument = _argument(case, 0)
    return {argument.spec.name: 0} if argument is not None and argument.shape else None


def _all_alike(case: Case) -> dict[str, int] | None:
    """Every input whose dimensions line up with the result's has the rows; those that are broadcast along them have none."""
    rank = case.results[0].rank
    axes = {}
    for argument in case.arguments:
        if argument is None or len(argument.shape) < rank or not rank:
            continue
        if argument.shape[0] == case.results[0].shape[0]:
            axes[argument.spec.name] = 0
    return axes or None


def _several(*indices: int) -> Rule:
    def rule(case: Case) -> dict[str, int] | None:
        chosen = [a for i in indices if (a := _argument(case, i)) is not None]
        return {a.spec.name: 0 for a in chosen if a.shape}

    return rule


def _along(default: int) -> Rule:
    """Rows, unless the operator works along the first axis."""

    def rule(case: Case) -> dict[str, int] | None:
        argument = _argument(case, 0)
        if argument is None or not argument.shape:
            return None
        axis = case.attributes.get("axis", default)
        return None if axis % len(argument.shape) == 0 else {argument.spec.name: 0}

    return rule


def _gemm(case: Case) -> dict[str, int] | None:
    a, c = _argument(case, 0), _argument(case, 2)
    assert a is not None
    axes = {a.spec.name: 1 if case.attributes.get("transA", 0) else 0}
    if c is not None and len(c.shape) == 2 and c.shape[0] != 1:
        axes[c.spec.name] = 0
    return axes


def _matmul(case: Case) -> dict[str, int] | None:
    a, b = _argument(case, 0), _argument(case, 1)
    assert a is not None
    assert b is not None
    if len(a.shape) < 2:
        return None
    axes = {a.spec.name: 0}
    if len(b.shape) > 2 and len(b.shape) == len(a.shape) and b.shape[0] != 1:
        axes[b.spec.name] = 0
    return axes if len(b.shape) <= len(a.shape) else None


def _reduction(case: Case) -> dict[str, int] | None:
    data, axes = _argument(case, 0), _argument(case, 1)
    if data is None or axes is None or axes.value is None or not data.shape or not axes.value.size:
        return None
    return None if 0 in [int(axis) % len(data.shape) for axis in axes.value] else {data.spec.name: 0}


def _attention(case: Case) -> dict[str, int] | None:
    query, key, value = (_argument(case, i) for i in range(3))
    optional_arguments = case.arguments[3:]
    if any(a is not None for a in optional_arguments) or query is None or key is None or value is None:
        return None
    return {a.spec.name: 0 for a in (query, key, value)}


def _inference(case: Case) -> dict[str, int] | None:
    return None if case.attributes.get("training_mode", 0) else _first(case)


def _named(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


_RULES: Mapping[str, Rule] = {
    **_named(
        _first,
        "AveragePool Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization "
        "InstanceNormalization LRN LpPool MaxPool SpaceToDepth",
    ),
    **_named(
        _all_alike,
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitwiseAnd BitwiseOr BitwiseXor Ceil Celu Cos Cosh Div Elu Equal Erf "
        "Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean "
        "Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub "
        "Sum Swish Tan Tanh ThresholdedRelu Where Xor",
    ),
    **_named(_along(-1), "Hardmax LayerNormalization LogSoftmax RMSNormalization Softmax TopK"),
    **_named(
        _reduction,
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare",
    ),
    "Attention": _attention,
    "BatchNormalization": _inference,
    "DeformConv": _several(0, 2, 4),
    "Gemm": _gemm,
    "GridSample": _several(0, 1),
    "MatMul": _matmul,
}
"""Operator to a rule that gives the axis of each input along which its rows lie."""
