"""A compiled plan as an executor: inputs by name, outputs by name, parameters by name; time as a CUDA device has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from deep_bench.adapters.torch.arrays import TYPES, contiguous_copy, describe_value, map_native, numpy_dtype, to_tensor
from deep_bench.adapters.torch.gradients import Autograd, OnReady
from deep_bench.adapters.torch.module import PlanModule
from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported
from deep_bench.events import NodeProfile
from deep_bench.framework import Device, Executor, Forms, Mode, check_native
from deep_bench.graph import Network
from deep_bench.network.gradient.derived import not_training
from deep_bench.tensor import TensorSpec, is_float


def cuda_event_timer(device: torch.device) -> Callable[[Callable[[], Any]], int]:
    """A timer made of two events around the call, on the device's current stream.

    The device's own clock leaves out the launch from Python and the wait for the end; events resolve about 500 ns.

    Args:
        device: A CUDA device.

    Returns:
        A function that runs a call and returns the nanoseconds between the events, after waiting for both.
    """
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    stream = torch.cuda.current_stream(device)

    def timed(call: Callable[[], Any]) -> int:
        begin.record(stream)
        call()
        end.record(stream)
        end.synchronize()
        return round(begin.elapsed_time(end) * 1e6)

    return timed


GUARD_PAYS_FROM = 8
"""Number of steps from which entering inference mode (0.6 us) saves more than it costs (about 0.1 us an operator)."""


_InferenceMode = torch._C._InferenceMode  # torch.inference_mode without the Python around it, at a third of the cost


class TorchExecutor(Executor[torch.Tensor]):
    """A network as a ``torch.nn.Module``.

    Args:
        module: The compiled plan; ``module.code`` is its source.
        run: What is called: the module's ``forward``, or what ``torch.compile`` made of it.
        device: The adapter.
        target: Where the tensors live.
        inputs: What must be fed.
        forms: How each node is run.
        mode: ``"inference"``: no autograd; ``"train"``: calls are recorded for differentiation.
        dtypes: The working type of each input; ``None`` for one that stays a NumPy array.
        baked: Parameters whose values are part of the code, and that cannot be assigned.
        guarded: Whether bound calls enter inference mode; without it, nothing in them asks for gradients either.
        network: What the module computes.
        convert: Applied to each of its constants (a change of precision).

    Attributes:
        timer: A clock of the device's own (CUDA events), if it has one.
    """

    def __init__(
        self,
        module: PlanModule,
        run: Callable[..., dict[str, torch.Tensor]],
        *,
        device: Device[torch.Tensor],
        target: torch.device,
        inputs: Sequence[TensorSpec],
        forms: Forms,
        mode: Mode,
        dtypes: Mapping[str, torch.dtype | None],
        baked: frozenset[str],
        guarded: bool,
        network: Network,
        convert: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self.module = module
        self.device = device
        self.inputs = tuple(inputs)
        self.output_names = module.plan.outputs
        self.forms = forms
        self.mode: Mode = mode
        self._keys = {n: module.keys[n] for n in module.plan.parameters if module.keys[n] in module._parameters}
        self.parameters = PlanParameters(module, self._keys, baked)
        self._run, self._target, self._dtypes = run, target, dtypes
        self._guarded = mode == "inference" and guarded
        self._modules = tuple(module.modules())
        self.network = self._network = network
        self._convert = convert
        self._working = _working(inputs, dtypes)
        self._checked: dict[str, tuple[torch.Size, torch.dtype]] | None = None
        self._autograd: Autograd | None = None
        self.timer = cuda_event_timer(target) if target.type == "cuda" else None

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Run the network; outputs that would share memory with an input, a constant or each other are copied."""
        arguments = self._arguments(inputs)
        return self._fresh(self._call(arguments), arguments)

    def bind(self, inputs: Mapping[str, torch.Tensor]) -> Callable[[], dict[str, torch.Tensor]]:
        """A call without arguments; the tensors are held, so what is written into them later is seen."""
        arguments, run, inference = tuple(self._arguments(inputs)), self._run, _InferenceMode
        if self.mode == "inference" and self._guarded:

            def guarded() -> dict[str, torch.Tensor]:
                with inference(True):
                    return run(*arguments)

            return guarded
        if len(arguments) == 1:
            (only,) = arguments
            return lambda: run(only)
        return lambda: run(*arguments)

    def gradients(
        self,
        inputs: Mapping[str, torch.Tensor],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: OnReady | None = None,
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Run the network and torch's backward pass.

        With ``on_ready``, a parameter's gradient is final before the whole pass is done: the last layers' come first.

        Raises:
            UnsupportedOperator: The loss depends on ``wrt`` through a node that torch cannot differentiate.
        """
        if self.mode != "train":
            raise not_training(self._network.name)
        if self._autograd is None:
            declared = tuple(spec.name for spec in self._network.outputs)
            network = self._network if self.output_names == declared else self._network.with_outputs(self.output_names)
            self._autograd = Autograd(network, self.module._parameters, self._keys, self._zeros)
        request = self._autograd.request(loss, wrt)
        if (forms := _forms(inputs)) is None or forms != self._checked:
            check_native(self.inputs, inputs, describe_value, self._working)
            self._checked = forms
        arguments = self._arguments(inputs)
        outputs, gradients = self._autograd(self._run, arguments, request, on_ready)
        return self._fresh(outputs, arguments), gradients

    def profile(
        self,
        inputs: Mapping[str, torch.Tensor],
        *,
        repeat: int = 20,
        loss: str | None = None,
        wrt: Sequence[str] | None = None,
    ) -> NodeProfile:
        """The time of each step of the generated code, and with ``loss`` of what autograd does for it.

        On a CUDA device also the kernels under each node, by torch's profiler, and what the allocator handed out.
        """
        from deep_bench.adapters.torch.profile import profile

        names = tuple(str(node.name) for node in self._network.nodes)
        plain = self.bind(inputs) if loss is None else lambda: self.gradients(inputs, loss, wrt=wrt)
        compiled = self._run is not self.module.forward
        return profile(self, names, plain, repeat, self._target, compiled=compiled, backward=loss is not None)

    def algorithms(self, inputs: Mapping[str, torch.Tensor]) -> Mapping[str, tuple[str, ...] | str]:
        """What oneDNN and oneMKL print for each step of the generated code; on a CUDA device the names of its kernels.

        Raises:
            Unsupported: A compiler made one piece of the network, or the libraries were not asked to print.
        """
        from deep_bench.adapters.torch.profile import algorithms_by_node

        if self._run is not self.module.forward:
            raise Unsupported("torch.compile made one piece of the network, in which nodes cannot be told apart")
        names = tuple(str(node.name) for node in self._network.nodes)
        return algorithms_by_node(self.module, self.bind(inputs), names, self._target)

    def _zeros(self, name: str) -> torch.Tensor:
        """The gradient of a parameter that no node reads."""
        return torch.zeros_like(to_tensor(self._convert(self._network.parameters[name]), self._target))

    def _call(self, arguments: Sequence[Any]) -> dict[str, torch.Tensor]:
        if self.mode == "train":
            return self._run(*arguments)
        with _InferenceMode(True):
            return self._run(*arguments)

    def _arguments(self, inputs: Mapping[str, Any]) -> list[Any]:
        if inputs.keys() != self._dtypes.keys():
            raise InvalidInput(f"inputs named {sorted(inputs)}", f"exactly {sorted(self._dtypes)}")
        return [self._argument(inputs[name], dtype) for name, dtype in self._dtypes.items()]

    def _argument(self, value: Any, dtype: torch.dtype | None) -> Any:
        if isinstance(value, torch.Tensor):
            tensor = value.to(device=self._target, dtype=dtype)
            return tensor.detach() if self.mode == "inference" else tensor
        return map_native(lambda item: self._argument(item, dtype), value) if isinstance(value, list | tuple) else value

    def _fresh(self, outputs: dict[str, Any], arguments: Sequence[Any]) -> dict[str, Any]:
        held = {_memory(t) for t in _tensors(arguments)}
        for module in self._modules:
            held.update(_memory(t) for t in (*module._parameters.values(), *module._buffers.values()) if t is not None)

        def unshared(value: torch.Tensor | np.ndarray) -> torch.Tensor | np.ndarray:
            if isinstance(value, np.ndarray):
                return np.array(value)
            if value.numel() and _memory(value) in held:
                value = contiguous_copy(value)
            held.add(_memory(value))
            return value

        return {name: map_native(unshared, value) for name, value in outputs.items()}


def _working(inputs: Sequence[TensorSpec], dtypes: Mapping[str, torch.dtype | None]) -> np.dtype | None:
    """What floating-point inputs are converted to, where a network runs in another precision than its own."""
    changed = {dtypes[s.name] for s in inputs if is_float(s.dtype) and dtypes[s.name] not in (None, TYPES.get(s.dtype))}
    return next((numpy_dtype(dtype) for dtype in changed if dtype is not None), None)


def _forms(inputs: Any) -> dict[str, tuple[torch.Size, torch.dtype]] | None:
    """All that is checked of inputs, where these are tensors: inputs that are alike need not be checked again."""
    if type(inputs) is not dict or not all([isinstance(value, torch.Tensor) for value in inputs.values()]):  # noqa: C419
        return None
    return {name: (value.shape, value.dtype) for name, value in inputs.items()}


def _tensors(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    """All tensors, those in sequences included."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from _tensors(value)
        elif isinstance(value, torch.Tensor):
            yield value


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class PlanParameters(MutableMapping[str, torch.Tensor]):
    """The network's parameters by ONNX name: reading and assigning copies nothing.

    Args:
        module: Holds them.
        keys: Name of each to its key in the module.
        baked: Names of those that are part of the code.
    """

    def __init__(self, module: PlanModule, keys: Mapping[str, str], baked: frozenset[str]) -> None:
        self._module, self._keys, self._baked = module, keys, baked

    def __getitem__(self, name: str) -> torch.Tensor:
        parameter = self._module._parameters[self._keys[name]]
        assert parameter is not None
        return parameter

    def __setitem__(self, name: str, value: torch.Tensor) -> None:
        """Let the network use ``value`` itself from the next call on.

        Raises:
            KeyError: There is no such parameter.
            Unsupported: It was used to build the code, so that assigning it would change nothing.
            InvalidArgument: The shape, type or device differs.
        """
        old = self[name]
        if name in self._baked:
            raise Unsupported(
                f"parameter {name!r} is part of the code that was built for inference",
                advice='prepare(network, mode="train") keeps every parameter assignable',
            )
        if (value.shape, value.dtype, value.device) != (old.shape, old.dtype, old.device):
            raise InvalidArgument(
                f"{value.dtype}{list(value.shape)} on {value.device} for parameter {name!r}",
                f"{old.dtype}{list(old.shape)} on {old.device}",
            )
        held = self._module._parameters
        asks_alike = isinstance(value, nn.Parameter) and value.requires_grad == old.requires_grad
        if asks_alike and not any(value is p for p in held.values() if p is not old):
            new: Any = value
        else:  # one tensor as two parameters would have the sum of both gradients
            new = nn.Parameter(value.detach(), requires_grad=old.requires_grad)
        held[self._keys[name]] = new

    def __delitem__(self, name: str) -> None:
        raise Unsupported(f"parameter {name!r} cannot be deleted", advice="assign another value to it")

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
