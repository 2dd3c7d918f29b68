"""A native function as an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deep_bench.errors import Unsupported
from deep_bench.framework import Device
from deep_bench.operators.case_values import content
from deep_bench.operators.host import Host
from deep_bench.operators.native_code import attributes as plain_attributes
from deep_bench.operators.native_code import library, plain, tvm
from deep_bench.operators.native_code.arrays import address, spec_of
from deep_bench.operators.native_code.build import Built, Recipe, build, require_sanitizer
from deep_bench.operators.native_code.call import Call, Tensors, backward_names, forward_names
from deep_bench.operators.native_code.ready import Ready, Specs
from deep_bench.operators.native_code.results import gradients_of, infer, setting
from deep_bench.operators.native_code.signature import Signature
from deep_bench.operators.operator import Operator
from deep_bench.tensor import TensorSpec

if TYPE_CHECKING:
    from deep_bench.operators.case import Case
    from deep_bench.operators.native_code.sanitizer import Sanitizer

_KEPT = 8
"""For how many different shapes a function is kept ready."""


class NativeOperator(Operator[Any]):
    """A function of a shared library, made by `deep_bench.operators.native`.

    Its results are fresh arrays, and its inputs are kept until the next call. It must not be called by two threads at once.
    When it is pickled, its source goes along, and is built or found in the cache on the other side.

    Args:
        recipe: What it is made of.
    """

    def __init__(self, recipe: Recipe) -> None:
        if recipe.sanitize:
            require_sanitizer(recipe)
        self.recipe = recipe
        self.computes = recipe.computes
        self._ready: Ready | None = None
        self._all_ready: dict[Any, Ready] = {}
        self._depends: dict[Any, bool] = {}
        self._outputs: int | None = len(recipe.signature.names("written")) if recipe.signature is not None else None

    def __reduce__(self) -> Any:
        return NativeOperator, (self.recipe,)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.recipe.function

    @property
    def differentiates(self) -> bool:
        """Whether it has a function for the gradients."""
        return self.recipe.backward is not None

    @cached_property
    def device(self) -> Device[Any]:  # type: ignore[override]
        """Where its arrays live: made on first use, since it may import a framework."""
        device = self.recipe.device
        if not isinstance(device, str):
            return device
        if device == "cpu":
            return Host()
        from deep_bench.variant import Variant

        return Variant.parse("torch:device=cuda" if device == "cuda" else device).create()

    @cached_property
    def built(self) -> Built:
        """Its library, compiled unless that was done before. See `deep_bench.operators.native_code.build.build`."""
        return build(self.recipe)

    def sanitized(self) -> NativeOperator:
        """The same with ``sanitize=True``.

        Raises:
            InvalidArgument: It is a library that is built already, or on a device of a framework.
        """
        return NativeOperator(replace(self.recipe, sanitize=True))

    def setup(self, case: Case) -> None:
        """Compile the source, and allocate what a case needs.

        Raises:
            BuildFailed: The compiler refused.
            Unsupported: The function does not take such inputs or attributes, or there is no compiler or device.
            InvalidArgument: The library has no such function.
        """
        self._outputs = case.outputs
        if self.recipe.sanitize:
            self._sanitizer.setup(case)
            return
        specs = tuple(None if a is None else a.spec for a in case.arguments)
        self._prepared(specs, [None if a is None else a.value for a in case.arguments], dict(case.attributes))

    def forward(self, *inputs: Any, **attributes: Any) -> Any:
        """Call the function.

        Raises:
            KernelFailed: It says that it failed.
            MemoryViolation: It runs under a sanitizer, which found something.
            Unsupported: The function does not take such inputs or attributes.
        """
        ready = self._ready
        if ready is not None and attributes == ready.attributes:
            held = ready.held
            if len(held) == len(inputs):
                i = 0  # counting costs half of what zip or enumerate does
                for held_input in held:
                    if inputs[i] is not held_input:
                        break
                    i += 1  # noqa: SIM113
                else:
                    return ready.run()
                if ready.exchange(inputs):
                    return ready.run()
        if self.recipe.sanitize:
            return self._sanitizer.forward(inputs, attributes)
        return self._accepting(inputs, attributes).run()

    def forward_into(self, outputs: Sequence[Any], inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
        """Call the function with given arrays for its results, all of them contiguous.

        Raises:
            InvalidInput: They are not as the results are.
        """
        self._accepting(tuple(inputs), dict(attributes)).run_into(outputs)

    def bind(self, *inputs: Any, **attributes: Any) -> Callable[[], Any]:
        """A call without arguments of the function on these inputs, at the lowest cost.

        Its results are the same arrays each time, and so valid until the next call only.
        """
        specs = self._specs(inputs)
        results, _ = self._infer(specs, _settings(inputs), attributes)
        ready = self._new("forward", specs, results, attributes, depends=False)
        ready.accept(inputs)
        return ready.bound()

    def results(self, *inputs: Any, **attributes: Any) -> tuple[TensorSpec, ...]:
        """Name, shape and element type of what it gives for these inputs."""
        return self._infer(self._specs(inputs), _settings(inputs), attributes)[0]

    def backward(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **attributes: Any
    ) -> tuple[Any, ...]:
        """Call the function for the gradients; see `deep_bench.operators.Operator.backward`."""
        if self.recipe.backward is None:
            return super().backward(grads, inputs, outputs, **attributes)
        if self.recipe.sanitize:
            return self._sanitizer.backward(grads, inputs, outputs, attributes)
        result = self._accepting_back(grads, inputs, outputs, attributes).run()
        return result if isinstance(result, tuple) else (result,)

    def backward_into(
        self,
        gradients: Sequence[Any],
        grads: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        attributes: Mapping[str, Any],
    ) -> None:
        """As `backward`, with given arrays for the gradients; ``None`` where there is none."""
        self._accepting_back(grads, inputs, outputs, dict(attributes)).run_into(gradients)

    def gradients(self, *inputs: Any) -> Specs:
        """Name, shape and element type of the gradient of each input, ``None`` where it gives none."""
        return gradients_of(self._specs(inputs), self._wanted(len(inputs)))

    def poison(self) -> None:
        """Overwrite all arrays that it would use again for results."""
        for ready in self._all_ready.values():
            ready.poison()

    @cached_property
    def _sanitizer(self) -> Sanitizer:
        from deep_bench.operators.native_code.sanitizer import Sanitizer

        return Sanitizer(self.recipe)

    def _accepting(self, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Ready:
        """The call for such inputs, pointed at these."""
        ready = self._prepared(self._specs(inputs), inputs, attributes)
        ready.accept(inputs)
        self._ready = ready
        return ready

    def _prepared(self, specs: Specs, inputs: Sequence[Any], attributes: dict[str, Any]) -> Ready:
        """The call for such inputs; of their contents, only those that decide the shape of a result matter."""
        values = _settings(inputs)
        shapes = _key("forward", specs, attributes)
        key = (shapes, content(values))
        ready = self._all_ready.get(key if self._depends.get(shapes) else shapes)
        if ready is None:
            results, depends = self._infer(specs, values, attributes)
            self._depends[shapes] = depends
            ready = self._new("forward", specs, results, attributes, depends=depends)
            self._keep(key if depends else shapes, ready)
        return ready

    def _accepting_back(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], attributes: dict[str, Any]
    ) -> Ready:
        arrays = (*grads, *inputs, *outputs)
        input_specs, computed = self._specs(inputs), self._specs(outputs, "outputs")
        specs = (*(None if g is None else s for g, s in zip(grads, computed, strict=True)), *input_specs, *computed)
        key = _key(f"backward {len(grads)}", specs, attributes)
        ready = self._all_ready.get(key)
        if ready is None:
            gradients = gradients_of(input_specs, self._wanted(len(inputs)))
            ready = self._new("backward", specs, gradients, attributes, depends=False)
            self._keep(key, ready)
        ready.accept(arrays)
        return ready

    def _keep(self, key: Any, ready: Ready) -> None:
        if len(self._all_ready) >= _KEPT:
            del self._all_ready[next(iter(self._all_ready))]
        self._all_ready[key] = ready

    def _specs(self, arrays: Sequence[Any], role: str = "inputs") -> Specs:
        """The arrays' names are those of the signature, if there is one."""
        signature = self.recipe.signature
        names = signature.names("read" if role == "inputs" else "written") if signature is not None else ()
        short = "x" if role == "inputs" else "y"
        return tuple(
            None if a is None else spec_of(a, names[i] if i < len(names) else f"{short}{i}") for i, a in enumerate(arrays)
        )

    def _infer(
        self, specs: Specs, values: Sequence[Any], attributes: Mapping[str, Any]
    ) -> tuple[tuple[TensorSpec, ...], bool]:
        return infer(self.recipe.computes, specs, values, attributes, self._outputs)

    def _wanted(self, count: int) -> tuple[str, ...] | None:
        """The name of each input's gradient where the backward function gives one, else an empty text; ``None`` for all."""
        forward, backward = self.recipe.signature, self.recipe.backward_signature
        if backward is None:
            return None
        if forward is None:
            raise Unsupported("a backward signature without a forward one", "both", "give the forward function's signature")
        written = backward.names("written")
        return tuple(f"d{n}" if f"d{n}" in written else "" for n in forward.names("read")[:count])

    @cached_property
    def _library(self) -> Any:
        return tvm.load(self.built.path) if self.built.route == "tvm-ffi" else library.load(self.built.path)

    def _function(self, direction: str) -> tuple[Any, str, Signature | None]:
        recipe = self.recipe
        name = recipe.function if direction == "forward" else str(recipe.backward)
        signature = recipe.signature if direction == "forward" else recipe.backward_signature
        find = tvm.function if self.built.route == "tvm-ffi" else library.function
        return find(self._library, self.built.path, name), name, signature

    def _new(self, direction: str, read: Specs, written: Specs, attributes: Mapping[str, Any], *, depends: bool) -> Ready:
        function, name, signature = self._function(direction)
        values = plain_attributes.complete(self.recipe.computes, attributes)
        names: dict[str, int] = {}
        if signature is not None:
            forward = self.recipe.signature
            if direction == "forward":
                names = forward_names(signature, read, written, name)
            elif forward is not None:
                names = backward_names(signature, forward, name)
            used_names = [p.attribute for p in signature.parameters if p.attribute is not None]
            plain_attributes.refuse_others(self.recipe.computes, values, used_names, name)
        tensors = Tensors(tuple(read), tuple(written), names)
        by_tvm = self.built.route == "tvm-ffi"
        return Ready(
            self._call(function, name, signature, tensors, values),
            name,
            tensors.read,
            tensors.written,
            place=tvm.pass_on if by_tvm else address,
            device=self.device,
            attributes=dict(attributes),
            depends=depends,
        )

    def _call(
        self, function: Any, name: str, signature: Signature | None, tensors: Tensors, values: Mapping[str, Any]
    ) -> Call:
        if self.built.route == "tvm-ffi":
            return tvm.call(function, name, signature, tensors, values)
        if signature is None:
            return plain.call_by_tensors(function, tensors, values)
        return plain.call_by_signature(function, name, signature, tensors, values)


def _settings(inputs: Sequence[Any]) -> list[Any]:
    """The contents that may decide the shape of a result."""
    return [x if setting(x) else None for x in inputs]


def _key(label: str, specs: Specs, attributes: Mapping[str, Any]) -> Any:
    return (label, tuple(None if s is None else (s.shape, s.dtype) for s in specs), content(attributes))
