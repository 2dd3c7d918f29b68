"""The operator: what a person subclasses to have a kernel of their own timed and checked."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Device
from deep_bench.operators.host import Host

if TYPE_CHECKING:
    from deep_bench.operators.case import Case

A = TypeVar("A")


class Operator(ABC, Generic[A]):
    r"""A kernel, on the arrays of one device.

    One method is overridden: `forward`. It gets the inputs in the order of the ONNX operator, those that a case omits as
    ``None``, and the attributes by keyword, defaults included where it names them. Arrays are ``device``'s own.

    With ``backward`` the gradients are timed and checked as well: for a scalar :math:`L`, of which ``grads`` holds
    :math:`\partial L / \partial y_i` for each output, it returns :math:`\partial L / \partial x_j` for each input.

    Attributes:
        computes: What it claims to compute: an ONNX operator (``"Gelu"``, ``"com.microsoft::FusedGemm"``), or a NumPy
            function of the same signature that a person can read.
        device: Where its arrays live.
        returns_views: Whether an output may share memory with an input.
        reuses_outputs: Whether `forward` may return memory that an earlier call has returned already.
        norm_wise: Whether its algorithm is knowingly accurate relative to the largest results only (Winograd, Strassen,
            fast math), and is to be judged so.

    Example:
        >>> import numpy as np
        >>> class Doubled(Operator):
        ...     computes = lambda x: x + x
        ...     def forward(self, x):
        ...         return 2 * x
        >>> Doubled().forward(np.ones(2, np.float32))
        array([2., 2.], dtype=float32)
    """

    computes: str | Callable[..., Any]
    device: Device[A] = Host()  # type: ignore[assignment]
    returns_views: bool = False
    reuses_outputs: bool = False
    norm_wise: bool = False

    @property
    def name(self) -> str:
        """How tables call it: the name of the class."""
        return type(self).__name__

    @property
    def target(self) -> str | Callable[..., Any]:
        """What it claims to compute, as `computes` states it: a function in the class is no method.

        Raises:
            InvalidArgument: It states nothing, or neither a name nor a function.
        """
        claim = inspect.getattr_static(self, "computes", None)
        claim = claim.__func__ if isinstance(claim, staticmethod) else claim
        if not (callable(claim) or (isinstance(claim, str) and claim)):
            raise InvalidArgument(
                f"{self.name}.computes is {claim!r}",
                "the name of an ONNX operator, or a NumPy function",
                f'state what it is to be checked against: computes = "Gelu" in the class {type(self).__name__}',
            )
        return claim

    def setup(self, case: Case) -> None:
        """Compile or allocate what one case needs; called before the first call of `forward`, and timed apart."""
        del case

    @abstractmethod
    def forward(self, *inputs: Any, **attributes: Any) -> A | tuple[A, ...]:
        """The operator's output, or a tuple of its outputs. The inputs must stay as they are."""

    def bind(self, *inputs: Any, **attributes: Any) -> Callable[[], A | tuple[A, ...]]:
        """A call without arguments of `forward` on these inputs, which is what is timed.

        Override it where such a call can do with less than `forward` needs; its outputs are valid until the next call only.
        """
        return lambda: self.forward(*inputs, **attributes)

    def backward(
        self, grads: Sequence[A | None], inputs: Sequence[A | None], outputs: Sequence[A], **attributes: Any
    ) -> tuple[A | None, ...]:
        """The gradient of each input, ``None`` where there is none.

        Args:
            grads: The gradient of each output, in order; ``None`` for an output that the loss does not depend on.
            inputs: What `forward` got.
            outputs: What it returned, always as a tuple.
            **attributes: As for `forward`.

        Raises:
            Unsupported: The operator has no gradient.
        """
        del grads, inputs, outputs, attributes
        raise Unsupported(
            f"{self.name} has no gradient", advice=f"override {self.name}.backward to have it checked and timed"
        )

    @property
    def differentiates(self) -> bool:
        """Whether it has a ``backward`` of its own."""
        return type(self).backward is not Operator.backward
