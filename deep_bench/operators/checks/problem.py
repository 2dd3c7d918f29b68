"""A case with all that is known of it, whatever kernel is to solve it; and a kernel that is set up for it.

It is called so that whatever goes wrong in it is told from faults of the checks. A later answer of a kernel is still one
if it is no worse than its first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from deep_bench.check.judge import EndToEnd, assess_whole
from deep_bench.check.oracle import Effort, Truth, establish
from deep_bench.errors import DeepBenchError, Unsupported, shortened
from deep_bench.graph import Network
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding, KernelFailure
from deep_bench.operators.operator import KernelAdapter, KernelExecutor, Operator
from deep_bench.tensor import is_float, is_inexact
from deep_bench.workers.worker import LINE_CHARACTERS

_APART = 1_000_003
_SPRINKLED = 3
"""The most elements of an input that are NaN or infinite."""


NAN = "nan"
"""The distribution of ``special`` inputs without infinities."""


@dataclass(frozen=True, eq=False)
class BackwardProblem:
    """What is known of a case's gradients.

    Args:
        inputs: Name to array.
        grads: Name of a floating-point output to the gradient of a loss with respect to it.
        pullback: The network with that loss: a `deep_bench.network.gradient.pullback.Pullback`.
        truth: Of the gradients.
    """

    inputs: Mapping[str, np.ndarray]
    grads: Mapping[str, np.ndarray]
    pullback: Any
    truth: Truth

    @property
    def names(self) -> dict[str, str]:
        """Input to what its gradient is called among the outputs of `truth`."""
        return dict(zip(self.pullback.wrt, self.truth.outputs, strict=True))


class Problem:
    """A case with its inputs and what a right answer to each is. Made once, it serves any number of kernels and checks.

    Args:
        case: The case.
        seed: Names the inputs.
        effort: ``"quick"`` or ``"full"``, as for `deep_bench.check.establish`.

    Example:
        >>> problem = Problem(Case.of("Gelu", (2, 3)), seed=7)
        >>> problem.truth("huge").outputs["Y"].shape
        (2, 3)
    """

    def __init__(self, case: Case, *, seed: int = 0, effort: Effort = "quick") -> None:
        self.case, self.seed, self.effort = case, seed, effort
        self._truths: dict[tuple[str, int], Truth] = {}
        self._backward: dict[tuple[str, int, str | None], BackwardProblem] = {}

    @property
    def name(self) -> str:
        """How tables call the case."""
        return self.case.name

    @cached_property
    def network(self) -> Network:
        """The case as a network of one node."""
        return self.case.network()

    def seed_of(self, number: int) -> int:
        """What the inputs of a number are drawn by."""
        return self.seed + _APART * number

    def inputs(self, distribution: str = "normal", number: int = 0) -> dict[str, np.ndarray]:
        """Inputs of their own for each distribution and number.

        Of the ``special`` ones only a few elements of each input are NaN or infinite, so that most results stay finite; of
        those of `NAN` a few are NaN, where an input may be any number.
        """
        seed = self.seed_of(number)
        if distribution not in ("special", NAN):
            return self.case.arrays(seed, distribution)
        plain, special = self.case.arrays(seed, "normal"), self.case.arrays(seed, "special")
        if distribution == NAN:
            any_number = {a.spec.name for a in self.case.arguments if a is not None and a.draw == "normal"}
            special = {n: np.full_like(a, np.nan) if n in any_number and is_float(a.dtype) else a for n, a in plain.items()}
        return {name: _sprinkled(plain[name], array, np.random.default_rng([seed, 2])) for name, array in special.items()}

    def truth(self, distribution: str = "normal", number: int = 0) -> Truth:
        """What is known of the answer to `inputs`; established once."""
        key = (distribution, number)
        if key not in self._truths:
            self._truths[key] = self.truth_of(self.inputs(distribution, number))
        return self._truths[key]

    def truth_of(self, inputs: Mapping[str, np.ndarray]) -> Truth:
        """What is known of the answer to other inputs."""
        return establish(self.network, inputs, self.effort, seed=self.seed)

    def pulled_back(self, inputs: Mapping[str, np.ndarray], gradients: Mapping[str, np.ndarray]) -> Any:
        """The gradients of the inputs for given gradients of the outputs, as the reference derives them.

        Returns:
            A `deep_bench.network.gradient.pullback.Pullback`.
        """
        from deep_bench import frameworks

        return frameworks["reference"]().pull_back(self.network, inputs, gradients)

    def backward(self, distribution: str = "normal", number: int = 0, only: str | None = None) -> BackwardProblem:
        """What is known of the gradients at `inputs`, for gradients of the outputs that are standard normal.

        Args:
            distribution, number: As for `inputs`.
            only: The output that the loss depends on, if not on all.

        Raises:
            UnsupportedOperator: The reference knows no gradient of the operator.
        """
        key = (distribution, number, only)
        if key not in self._backward:
            truth = self.truth(distribution, number)
            drawn = self.output_gradients(truth, number)
            grads = drawn if only is None else {only: drawn[only]}
            pullback = self.pulled_back(truth.inputs, grads)
            self._backward[key] = BackwardProblem(truth.inputs, grads, pullback, pullback.truth(self.effort))
        return self._backward[key]

    def output_gradients(self, truth: Truth, number: int = 0) -> dict[str, np.ndarray]:
        """Random gradients of the floating-point outputs, standard normal."""
        rng = np.random.default_rng([self.seed, number, 1])
        forms = {name: truth.formats.get(name, np.asarray(y).dtype) for name, y in truth.outputs.items()}
        shapes = {name: np.shape(truth.outputs[name]) for name, dtype in forms.items() if is_float(dtype)}
        return {name: rng.standard_normal(shape).astype(forms[name]) for name, shape in shapes.items()}


def _sprinkled(plain: np.ndarray, special: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers with a few elements that are NaN or infinite; whole numbers with the ends of their type as they are."""
    if not is_inexact(special.dtype):
        return special
    with np.errstate(all="ignore"):
        wide = special.astype(np.complex128).reshape(-1)
    order = rng.permutation(np.flatnonzero(~np.isfinite(wide)))
    kinds = np.where(np.isnan(wide[order]), 0.0, np.sign(wide[order].real))
    firsts = [order[kinds == kind][:1] for kind in (1.0, -1.0, 0.0)]  # NaN last, since it is asked apart as well
    chosen = np.concatenate([*firsts, order])[: max(1, min(_SPRINKLED, special.size // 8))]
    result = plain.copy()
    result.reshape(-1)[chosen] = special.reshape(-1)[chosen]
    return result


def posed(case: Case | Problem, seed: int = 0, effort: Effort = "quick") -> Problem:
    """The problem that a case poses; a problem itself as it is."""
    return case if isinstance(case, Problem) else Problem(case, seed=seed, effort=effort)


R = TypeVar("R")


class Prepared:
    """A kernel that is set up for a case.

    Args:
        operator: The kernel.
        network: The case's.

    Raises:
        KernelFailure: Setting it up failed.
        Unsupported: The kernel does not take such a case.
    """

    def __init__(self, operator: Operator[Any], network: Network) -> None:
        self.operator = operator
        self.device = operator.device
        adapter = KernelAdapter(operator)
        self.executor: KernelExecutor = kernel_result(f"{operator.name}.setup", lambda: adapter.prepare(network))

    def native(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The arrays on the kernel's device, in memory of their own."""
        return {name: self.device.from_numpy(np.array(array, order="C")) for name, array in arrays.items()}

    def call(self, inputs: Mapping[str, Any], *, wait: bool = True) -> dict[str, Any]:
        """The kernel's outputs on its device; when it is done, unless one does not ``wait``."""

        def run() -> dict[str, Any]:
            with np.errstate(all="ignore"):
                outputs = self.executor.forward(inputs)
            if wait:
                self.device.synchronize()
            return outputs

        return kernel_result(f"{self.operator.name}.forward", run)

    def read(self, outputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Copies of outputs in NumPy."""

        def convert() -> dict[str, np.ndarray]:
            return {name: np.array(self.device.to_numpy(array)) for name, array in outputs.items()}

        return kernel_result(f"reading what {self.operator.name}.forward returned", convert)

    def answer(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the kernel gives for arrays of NumPy."""
        return self.read(self.call(self.native(arrays)))

    def pull_back(self, inputs: Mapping[str, Any], grads: Mapping[str, Any]) -> dict[str, Any]:
        """What ``backward`` gives for native arrays: each input of the operator to its gradient, or to ``None``.

        Args:
            inputs: Name to array.
            grads: Output to its gradient; ``backward`` gets ``None`` for one that is left out.
        """

        def run() -> dict[str, Any]:
            with np.errstate(all="ignore"):
                gradients = self.executor.pull_back(inputs, [grads.get(name) for name in self.executor.results])
            self.device.synchronize()
            pairs = zip(self.executor.case.arguments, gradients, strict=True)
            return {argument.spec.name: gradient for argument, gradient in pairs if argument is not None}

        return kernel_result(f"{self.operator.name}.backward", run)

    def read_gradient(self, gradient: Any) -> np.ndarray:
        """A gradient in NumPy."""
        doing = f"reading what {self.operator.name}.backward returned"
        return kernel_result(doing, lambda: np.array(self.device.to_numpy(gradient)))


def kernel_result(doing: str, run: Callable[[], R]) -> R:
    """The result of a kernel's code, whose exceptions become a `KernelFailure`.

    Raises:
        KernelFailure: It raised.
        DeepBenchError: The very one that it raised, if it is one of these: what came and what was expected.
    """
    try:
        return run()
    except DeepBenchError:
        raise
    except (Exception, SystemExit) as error:  # a kernel may raise anything
        line = shortened(next(iter(str(error).strip().splitlines()), ""), LINE_CHARACTERS)
        raise KernelFailure(f"{doing} raised {type(error).__name__}{f': {line}' if line else ''}") from error


def finding_of(name: str, problem: Problem, find: Callable[[], Finding], place: str = "") -> Finding:
    """What a check finds, or that the kernel failed or refused.

    Args:
        name: The check.
        problem: The case.
        find: Calls the kernel.
        place: What the kernel was given.
    """
    try:
        return find()
    except Unsupported as refusal:
        return Finding(name, problem.name, "not applicable", first_line(refusal), place=place)
    except DeepBenchError as failure:
        expected = f"; expected: {failure.expected}" if failure.expected else ""
        return Finding(name, problem.name, "failed", f"{first_line(failure)}{expected}", place=place)


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    message = error.came if isinstance(error, DeepBenchError) else str(error)
    return next(iter(message.strip().splitlines()), type(error).__name__)


_LOST = 4.0
"""How many bits an answer may have less than the first: other inputs round otherwise."""


_FEWEST = 4.0
"""An answer with fewer bits than this is none."""


class Honest:
    """Compares later answers with the first: a kernel in reduced precision stays what it is.

    Args:
        truth: Of the inputs of the first answer.
        first: That answer.
    """

    def __init__(self, truth: Truth, first: Mapping[str, np.ndarray]) -> None:
        whole = whole_of(truth, first)
        self._clear, self._bits = whole.clear, _bits(whole)

    @property
    def judgeable(self) -> bool:
        """Whether the first answer is good enough to tell a later one from none."""
        return self._clear or self._bits >= _FEWEST

    def admits(self, truth: Truth, answer: Mapping[str, np.ndarray]) -> bool:
        """Whether an answer to other inputs is as good as the first was to its own."""
        whole = whole_of(truth, answer)
        return whole.clear or _bits(whole) >= max(_FEWEST, self._bits - _LOST)


def _bits(whole: EndToEnd) -> float:
    """The bits of the worst output; none where elements differ in kind."""
    return 0.0 if any(o.mismatches for o in whole.outputs) else whole.bits


def whole_of(truth: Truth, answer: Mapping[str, np.ndarray]) -> EndToEnd:
    """What is said of an answer to the inputs of ``truth``."""
    return assess_whole(truth, answer, truth.outputs, truth.samples)


def tells_apart(truth: Truth, other: Truth) -> bool:
    """Whether the right answers to two inputs differ by more than rounding."""
    for name, y in truth.outputs.items():
        a, b = np.asarray(y), np.asarray(other.outputs[name])
        if a.shape != b.shape:
            return True
        narrow = {name: b.astype(truth.formats[name])}
        with np.errstate(all="ignore"):
            if not assess_whole(truth, narrow, {name: y}, [{name: s[name]} for s in truth.samples]).clear:
                return True
    return False
