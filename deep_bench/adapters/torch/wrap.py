"""`wrap`: a hand-written ``nn.Module`` as an executor; somebody else's module is used, and left as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn

from deep_bench.adapters.torch.arrays import describe_value, numpy_dtype, to_array, to_tensor, torch_dtype
from deep_bench.adapters.torch.executor import cuda_event_timer
from deep_bench.adapters.wrapping import accepts, check_mode, each_once, named_results, positional_names, result_names
from deep_bench.errors import InvalidArgument, InvalidInput, UnknownName, Unsupported
from deep_bench.framework import Device, Executor, Forms, Mode, check_native, checked_request
from deep_bench.network.gradient.derived import not_training
from deep_bench.tensor import TensorSpec


class Evaluating:
    """A context in which a module and all parts of it are in evaluation mode; behind it, each has its own mode again.

    It is entered in every call that is timed, and so is cheap: where the module is in evaluation mode already, a look at
    each part. A part that does more than to note its mode, by a method ``train`` of its own, has that called.

    Args:
        module: The module; its parts are those of now.

    Example:
        >>> module = nn.Sequential(nn.Dropout(), nn.Linear(2, 2).eval())
        >>> with Evaluating(module):
        ...     [part.training for part in module.modules()]
        [False, False, False]
        >>> [part.training for part in module.modules()]
        [True, True, False]
    """

    __slots__ = ("_changed", "_module", "_parts", "_plain")

    def __init__(self, module: nn.Module) -> None:
        self._module, self._parts = module, tuple(module.modules())
        self._plain = all(_only_notes(type(part)) for part in self._parts)
        self._changed: list[nn.Module] = []

    def __enter__(self) -> None:
        self._changed = [part for part in self._parts if part.training]
        if self._plain:
            for part in self._changed:
                part.__dict__["training"] = False
        elif self._changed:
            self._module.eval()

    def __exit__(self, *_: object) -> None:
        if self._plain:
            for part in self._changed:
                part.__dict__["training"] = True
        elif self._changed:
            for part in self._parts:  # a part's own parts come after it, and have the last word
                part.train(part in self._changed)


def _only_notes(kind: type[nn.Module]) -> bool:
    """Whether modules of a class keep their mode in an attribute, and do nothing else when it changes."""
    return (
        kind.train is nn.Module.train
        and kind.eval is nn.Module.eval
        and kind.__setattr__ is nn.Module.__setattr__
        and not hasattr(kind, "training")
    )


@contextmanager
def without_trace(module: nn.Module, target: torch.device) -> Iterator[None]:
    """A context for a call that is only tried: buffers, such as running statistics, and random numbers are as before."""
    held = [
        (part._buffers, name, buffer, buffer.clone())
        for part in module.modules()
        for name, buffer in part._buffers.items()
        if buffer is not None
    ]
    with torch.random.fork_rng([target] if target.type == "cuda" else []), torch.no_grad():
        try:
            yield
        finally:
            for buffers, name, buffer, contents in held:
                buffers[name] = buffer.copy_(contents) if not torch.equal(buffer, contents) else buffer


Example = Sequence[Any] | Mapping[str, Any] | torch.Tensor | np.ndarray


def wrap(
    module: nn.Module,
    inputs: Sequence[TensorSpec] | Example,
    outputs: Sequence[str] | None = None,
    *,
    mode: Mode = "inference",
) -> WrappedModule:
    """Make a module an executor, so that it can be timed, compared and differentiated like a prepared network.

    The module is used as it is, on the device that it is on, with torch's settings as they are, and is left as it was: each
    call in evaluation mode gives every part of the module its own mode back, whatever happens in it. Its inputs are passed
    by keyword where ``forward`` has parameters of their names, else in order.

    Args:
        module: Any module whose ``forward`` takes tensors and returns a tensor, or a sequence or mapping of some.
        inputs: What it takes: specs, whose shapes may have open dimensions; or an example, by name or in order, that stands
            for inputs of just these shapes and types.
        outputs: Names of what it returns, in order; with an example they may be left out, and are then a mapping's keys, or
            ``output``, or ``output_0``, ``output_1``, …: the module is tried on the example, which leaves no trace in its
            buffers and in torch's random numbers.
        mode: ``"inference"`` calls the module in evaluation mode, and records nothing. ``"train"`` calls it in the modes
            that it and its parts are in, so that it is for the caller to say ``module.eval()`` or ``module.train()``.

    Raises:
        InvalidArgument: Inputs without names, outputs of another number, one name for two inputs or outputs, or no names
            for outputs beside specs.
        Unsupported: The module returns something else than tensors.

    Example:
        >>> executor = wrap(nn.Linear(3, 2), {"x": torch.zeros(1, 3)}, ["y"])
        >>> executor({"x": np.ones((1, 3), np.float32)})["y"].shape, sorted(executor.parameters)
        ((1, 2), ['bias', 'weight'])
    """
    check_mode(mode)
    if not isinstance(module, nn.Module):
        raise InvalidArgument(
            f"a {type(module).__name__} to wrap", "a torch.nn.Module", "wrap a callable in a module of your own"
        )
    target = next((t.device for t in (*module.parameters(), *module.buffers())), torch.device("cpu"))
    name = type(module).__name__
    specs, example = _described(module, inputs, target)
    each_once([spec.name for spec in specs], "input", name)
    if outputs is None:
        if example is None:
            raise InvalidArgument(
                "specs of the inputs, and no names of outputs",
                "a name for each value that the module returns",
                "give outputs=[…], or an example in place of the specs",
            )
        with without_trace(module, target), Evaluating(module) if mode == "inference" else nullcontext():
            outputs = result_names(_caller(module, specs)(*example), None, name)
    return WrappedModule(module, specs, each_once(outputs, "output", name), mode, target)


class WrappedModule(Executor[torch.Tensor]):
    """A module as an executor; see `wrap`.

    Args:
        module: The module.
        inputs: What it takes.
        outputs: Names of what it returns.
        mode: Whether calls are recorded for differentiation.
        target: Where its tensors are.

    Attributes:
        timer: A clock of the device's own (CUDA events), if it has one.
    """

    def __init__(
        self, module: nn.Module, inputs: Sequence[TensorSpec], outputs: tuple[str, ...], mode: Mode, target: torch.device
    ) -> None:
        self.module, self.mode = module, mode
        self.device = _ModuleTensors(target)
        self.inputs, self.output_names = tuple(inputs), outputs
        self.parameters = ModuleParameters(module)
        self.forms = Forms()
        self.timer = cuda_event_timer(target) if target.type == "cuda" else None
        self._name, self._call = type(module).__name__, _caller(module, inputs)

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Run the module; the outputs are copies."""
        with torch.set_grad_enabled(self.mode == "train"), self._evaluating():
            return {name: y.clone() for name, y in self._named(self._call(*self._arguments(inputs))).items()}

    def bind(self, inputs: Mapping[str, torch.Tensor]) -> Callable[[], dict[str, torch.Tensor]]:
        """A call without arguments; the tensors are held, so what is written into them later is seen."""
        arguments, call, named = self._arguments(inputs), self._call, self._named
        if self.mode == "train":
            return lambda: named(call(*arguments))

        evaluating = Evaluating(self.module)

        def bound() -> dict[str, torch.Tensor]:
            with torch.inference_mode(), evaluating:
                return named(call(*arguments))

        return bound

    def gradients(
        self,
        inputs: Mapping[str, torch.Tensor],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, torch.Tensor], None] | None = None,
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Run the module and torch's backward pass.

        By default with respect to all parameters that ask for gradients, or all real inputs if none does. ``on_ready`` is
        told of each gradient when the whole pass is done.
        """
        if self.mode != "train":
            raise not_training(self._name)
        parameters = dict(self.module.named_parameters())
        trained = [name for name, p in parameters.items() if p.requires_grad]
        names = checked_request(self._name, self.output_names, trained, self.inputs, loss, wrt)
        check_native(self.inputs, inputs, describe_value)
        arguments = [
            a.detach().requires_grad_() if spec.name in names else a.detach()
            for spec, a in zip(self.inputs, self._arguments(inputs), strict=True)
        ]
        fed = {spec.name: a for spec, a in zip(self.inputs, arguments, strict=True)}
        leaves = [fed[name] if name in fed else parameters[name] for name in names]
        with torch.enable_grad():
            outputs = self._named(self._call(*arguments))
        slopes = _differentiated(loss, outputs[loss], leaves)
        gradients = dict(zip(names, slopes, strict=True))
        if on_ready is not None:
            for name, gradient in gradients.items():
                on_ready(name, gradient)
        return {name: y.detach().clone() for name, y in outputs.items()}, gradients

    def _evaluating(self) -> Evaluating | nullcontext[None]:
        return Evaluating(self.module) if self.mode == "inference" else nullcontext()

    def _arguments(self, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        if inputs.keys() != {spec.name for spec in self.inputs}:
            raise InvalidInput(f"inputs named {sorted(inputs)}", f"exactly {sorted(spec.name for spec in self.inputs)}")
        return [inputs[spec.name] for spec in self.inputs]

    def _named(self, result: Any) -> dict[str, torch.Tensor]:
        return named_results(result, self.output_names, lambda y: isinstance(y, torch.Tensor), self._name)


class ModuleParameters(MutableMapping[str, torch.Tensor]):
    """The parameters of a module by their dotted names: reading and assigning copies nothing.

    A parameter that is in several places (tied weights) has its first name, and is assigned in all of them.

    Args:
        module: Holds them.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __getitem__(self, name: str) -> torch.Tensor:
        for key, parameter in self._module.named_parameters():
            if key == name:
                return parameter
        raise UnknownName("parameter", name, self)

    def __setitem__(self, name: str, value: torch.Tensor) -> None:
        """Let the module use ``value`` itself from the next call on.

        Raises:
            UnknownName: There is no such parameter.
            InvalidArgument: The shape, type or device differs.
        """
        old = self[name]
        if (value.shape, value.dtype, value.device) != (old.shape, old.dtype, old.device):
            raise InvalidArgument(
                f"{value.dtype}{list(value.shape)} on {value.device} for parameter {name!r}",
                f"{old.dtype}{list(old.shape)} on {old.device}",
            )
        new = value if isinstance(value, nn.Parameter) else nn.Parameter(value.detach(), requires_grad=old.requires_grad)
        for part in self._module.modules():
            for key, held in list(part._parameters.items()):
                if held is old:
                    setattr(part, key, new)

    def __delitem__(self, name: str) -> None:
        raise Unsupported(f"parameter {name!r} cannot be deleted", advice="assign another value to it")

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._module.named_parameters())

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _ModuleTensors(Device[torch.Tensor]):
    """Tensors where the module is; unlike an adapter's, it leaves torch's settings alone."""

    def __init__(self, target: torch.device) -> None:
        self._target = target

    def from_numpy(self, array: np.ndarray) -> torch.Tensor:
        return to_tensor(np.asarray(array), self._target)

    def to_numpy(self, array: torch.Tensor) -> np.ndarray:
        return to_array(array)

    def synchronize(self) -> None:
        if self._target.type == "cuda":
            torch.cuda.synchronize(self._target)


def _described(
    module: nn.Module, inputs: Sequence[TensorSpec] | Example, target: torch.device
) -> tuple[tuple[TensorSpec, ...], list[torch.Tensor] | None]:
    """The specs of the inputs, and the tensors of an example."""
    if isinstance(inputs, Sequence) and inputs and all(isinstance(spec, TensorSpec) for spec in inputs):
        for spec in inputs:
            torch_dtype(spec.dtype)
        return tuple(inputs), None
    tensors = {name: t.to(target) for name, t in example_tensors(module, inputs).items()}
    specs = tuple(TensorSpec(name, tuple(t.shape), numpy_dtype(t.dtype)) for name, t in tensors.items())
    return specs, list(tensors.values())


def example_tensors(module: nn.Module, example: Example) -> dict[str, torch.Tensor]:
    """An example by the names of the inputs: its own, or those of the parameters of ``forward``.

    Raises:
        InvalidArgument: A value that is neither a tensor nor an array, or no name for one.
    """
    if isinstance(example, torch.Tensor | np.ndarray):
        example = (example,)
    if not isinstance(example, Mapping):
        example = dict(zip(positional_names(module.forward, len(example)), example, strict=True))
    return {name: _tensor(name, value) for name, value in example.items()}


def _tensor(name: str, value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if not isinstance(value, np.ndarray | np.generic):
        raise InvalidArgument(f"an example of type {type(value).__name__} for input {name!r}", "a tensor or a NumPy array")
    return to_tensor(np.asarray(value))


def _caller(module: nn.Module, specs: Sequence[TensorSpec]) -> Callable[..., Any]:
    """The module as a function of its inputs in order."""
    names = [spec.name for spec in specs]
    if not accepts(module.forward, names):
        return module
    return lambda *arguments: module(**dict(zip(names, arguments, strict=True)))


def _differentiated(name: str, loss: torch.Tensor, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    if loss.numel() != 1 or not loss.is_floating_point():
        raise InvalidArgument(
            f"the output {name!r} is {loss.dtype}{list(loss.shape)}",
            "a loss: one floating-point number",
            "let the module return its loss too",
        )
    if not leaves or not loss.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    gradients = torch.autograd.grad(loss.reshape(()), list(leaves), allow_unused=True)
    return [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, gradients, strict=True)]
