"""Transformations as they are written on a command line.

``fold``, ``precision:float16,keep=Gemm``, ``my_module:Function``: the last are the user's, functions from networks to
networks, named by their import path. Whether one changed anything is told.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

import deep_bench
from deep_bench import frameworks
from deep_bench.check import Effort
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.graph import Network
from deep_bench.graph.drawing import choose_sizes, draw_inputs
from deep_bench.measure.units import SCALES, read_scaled
from deep_bench.network.transform.batch_size import batch, through_batch
from deep_bench.network.transform.channels import layout, through_layout
from deep_bench.network.transform.constants import LIMIT, fold, fuse_batchnorm
from deep_bench.network.transform.equivalence import Arrays, Call, Equivalence, Through, check
from deep_bench.network.transform.narrower import precision
from deep_bench.network.transform.pieces import micro_batch
from deep_bench.network.transform.stages import extract
from deep_bench.tensor import is_float

_PATH = re.compile(r"([\w.]+):([^\W\d]\w*)(?=$|:)")
_SCALES = {"": 1, **SCALES["B"], "KB": 10**3, "kiB": 2**10}


@dataclass(frozen=True)
class TransformResult:
    """What a transformation gives.

    Args:
        network: The network.
        expected: What it is compared with: the network before, or the part of it that the transformation is about.
        through: How to get the outputs of ``expected`` from ``network``.
        unchanged: What to say if the transformation left the network as it was; empty otherwise.
    """

    network: Network
    expected: Network
    through: Through | None = None
    unchanged: str = ""

    def check(self, inputs: Arrays | None = None, *, effort: Effort = "quick", seed: int = 0) -> Equivalence:
        """Whether it computes the same.

        Args:
            inputs: Name to array for the network before; by default they are drawn, with sizes chosen where they are open.
            effort: ``"quick"`` or ``"full"``.
            seed: Of drawn inputs and of rounding errors.
        """
        if inputs is None:
            inputs = draw_inputs(self.expected.with_sizes(choose_sizes(self.expected, {}).all), seed)
        return check(self.expected, self.network, inputs, effort=effort, seed=seed, through=self.through)


@dataclass(frozen=True)
class TransformStep:
    """A transformation with its options.

    Args:
        name: Its name, or the import path of a function from ``Network`` to ``Network``.
        options: Pairs as written; the key is empty for what stands without one. A key may come again: it is a list.

    Example:
        >>> import deep_bench as db
        >>> step = TransformStep.parse("precision:float16,keep=Gemm")
        >>> str(step), step.apply(db.load("digits-cnn")).check().word
        ('precision:float16,keep=Gemm', 'right')
    """

    name: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> TransformStep:
        """Read ``NAME``, ``NAME:VALUE,KEY=VALUE,…`` or ``MODULE:FUNCTION:KEY=VALUE,…``.

        Raises:
            UnknownName: No such transformation.
            InvalidArgument: No such function.
        """
        name, _, remainder = text.strip().partition(":")
        path = _PATH.match(text.strip())
        if name not in STEPS and path:
            name, remainder = path[0], text.strip()[len(path[0]) + 1 :]
            user_function(name, STEPS)
        elif name not in STEPS:
            raise UnknownName("transformation", name, STEPS, "or the import path of a function: my_module:my_function")
        pairs = [part.partition("=") for part in remainder.split(",") if part]
        return cls(name, tuple((k.strip(), v) if equals else ("", k) for k, equals, v in pairs))

    def apply(self, network: Network, *, verify: bool = True) -> TransformResult:
        """Transform a network.

        Args:
            network: Any network.
            verify: Whether a transformation that may only seem to work (another batch size) checks itself.

        Raises:
            InvalidArgument: An option that the transformation does not take.
            DeepBenchError: What the transformation itself refuses.
        """
        applied = STEPS.get(self.name, _user_step)(network, _Options(self, verify))
        return replace(applied, unchanged=difference(network, applied.network))

    def __str__(self) -> str:
        options = ",".join(f"{k}={v}" if k else v for k, v in self.options)
        return f"{self.name}:{options}" if options else self.name


def transformed(
    network: Network, steps: Sequence[TransformStep], *, unchanged: Callable[[TransformStep, str], object] | None = None
) -> Network:
    """A network after some transformations, which its name tells.

    Args:
        network: Any network.
        steps: What to apply, in order.
        unchanged: Called with each step that changed nothing, and what to say of it.

    Example:
        >>> import deep_bench as db
        >>> transformed(db.load("digits-cnn"), [TransformStep.parse("fold"), TransformStep.parse("fuse_batchnorm")]).name
        'digits-cnn after fold, fuse_batchnorm'
    """
    name = network.name
    for step in steps:
        applied = step.apply(network)
        network = applied.network
        if applied.unchanged and unchanged is not None:
            unchanged(step, applied.unchanged)
    return Network(network.model, name=f"{name} after {', '.join(map(str, steps))}") if steps else network


class _Options:
    """The options of a step, each to be taken once."""

    def __init__(self, step: TransformStep, verify: bool) -> None:
        self.step, self.verify, self.left = step, verify, list(step.options)

    def all(self, key: str) -> list[str]:
        """The values of a key, in order."""
        values = [v for k, v in self.left if k == key]
        self.left = [(k, v) for k, v in self.left if k != key]
        return values

    def one(self, *keys: str, default: str | None = None) -> str:
        """The value of a key, which may go by several names."""
        values = [v for key in keys for v in self.all(key)]
        if len(values) > 1 or (not values and default is None):
            raise InvalidArgument(f"{self.step}", f"{self.step.name} with one {keys[-1]}, such as {_USAGE[self.step.name]}")
        return values[0] if values else str(default)

    def number(self, *keys: str, default: str | None = None) -> int:
        """A count, or a size in bytes: ``8``, ``100MiB``."""
        text = self.one(*keys, default=default)
        try:
            return int(read_scaled(text, _SCALES))
        except ValueError:
            raise InvalidArgument(f"{text!r} in {self.step}", "a number, or a size such as 100MiB") from None

    def sizes(self) -> dict[str, int]:
        """The numbers that are left, each by a name of the network's.

        Raises:
            InvalidArgument: A name comes twice.
        """
        pairs = [(k, int(v)) for k, v in self.left if k and v.isdecimal()]
        self.left = [(k, v) for k, v in self.left if not (k and v.isdecimal())]
        names = [k for k, _ in pairs]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise InvalidArgument(f"{', '.join(map(repr, twice))} more than once in {self.step}", "each name once")
        return dict(pairs)

    def end(self) -> None:
        """Nothing may be left."""
        if self.left:
            key, value = self.left[0]
            raise InvalidArgument(f"{key or value!r} in {self.step}", f"options as in {_USAGE[self.step.name]}")


def _plainly(transformation: Callable[[Network], Network]) -> Callable[[Network, _Options], TransformResult]:
    def apply(network: Network, options: _Options) -> TransformResult:
        options.end()
        return TransformResult(transformation(network), network)

    return apply


def _fold(network: Network, options: _Options) -> TransformResult:
    limit = options.number("limit", default=str(LIMIT))
    options.end()
    return TransformResult(fold(network, limit=limit), network)


def _batch(network: Network, options: _Options) -> TransformResult:
    size = options.number("", "size")
    axes = options.sizes() or None
    options.end()
    after = batch(network, size, axes=axes, verify=options.verify)
    fixed = not any(d in network.open_dimensions for s in network.inputs for d in s.shape)
    through = through_batch(network, size, axes=axes) if fixed and network is not after else None
    return TransformResult(after, network if fixed else after, through)


def _sizes(network: Network, options: _Options) -> TransformResult:
    sizes = options.sizes()
    options.end()
    after = network.with_sizes(sizes)
    return TransformResult(after, after)


def _precision(network: Network, options: _Options) -> TransformResult:
    to, keep, overflow = options.one("", "to"), options.all("keep"), options.one("overflow", default="refuse")
    borders = options.one("borders", default="false").lower() == "true"
    options.end()
    after = precision(network, to, keep=keep, borders=borders, overflow=overflow)  # type: ignore[arg-type]  # it checks

    def through(call: Call, inputs: Arrays) -> Mapping[str, Any]:
        forms = {s.name: s.dtype for s in after.inputs}
        return call({n: x.astype(forms[n]) if is_float(x.dtype) else x for n, x in inputs.items()})

    return TransformResult(after, network, through)


def _layout(network: Network, options: _Options) -> TransformResult:
    to = options.one("", "to")
    chosen: dict[str, Any] = {key: options.all(key[:-1]) or None for key in ("inputs", "outputs")}
    if any(chosen.values()):
        chosen = {key: names or [] for key, names in chosen.items()}
    options.end()
    after = layout(network, to, **chosen)  # type: ignore[arg-type]  # it checks
    return TransformResult(after, network, through_layout(network, to, **chosen))  # type: ignore[arg-type]


def _extract(network: Network, options: _Options) -> TransformResult:
    words = ",".join(v for k, v in options.left if not k)
    options.all("")
    options.end()
    start, dots, end = words.partition("..")
    if not dots:
        raise InvalidArgument(f"{options.step}", f"names of values on both sides of two dots: {_USAGE['extract']}")
    inputs = start.split(",") if start else [s.name for s in network.inputs]
    outputs = end.split(",") if end else [s.name for s in network.outputs]
    part = extract(network, inputs, outputs)
    input_names = {s.name for s in network.inputs}

    def through(call: Call, arrays: Arrays) -> Mapping[str, Any]:
        inner = [n for n in inputs if n not in input_names]
        feeds: dict[str, np.ndarray] = {n: arrays[n] for n in inputs if n in input_names}
        if inner:
            feeds |= frameworks["reference"]().prepare(network, outputs=inner)(arrays)
        return call(feeds)

    # the network with the outputs of a part of it, declared as there
    whole = network.with_outputs([s.name for s in part.outputs])
    for value, declared_value in zip(whole.graph.outputs, part.graph.outputs, strict=True):
        value.type, value.shape = declared_value.type, declared_value.shape
    return TransformResult(part, Network(whole.model, name=network.name), through)


def _micro_batch(network: Network, options: _Options) -> TransformResult:
    memory, on = options.number("", "memory"), options.one("on", default="onnxruntime")
    options.end()
    return TransformResult(micro_batch(network, memory, on=on), network)


def _user_step(network: Network, options: _Options) -> TransformResult:
    """A function of the user's, named by its import path."""
    arguments = {k: v for k, v in options.left if k}
    if len(arguments) != len(options.left):
        raise InvalidArgument(
            f"{options.step}", f"options that {options.step.name} has, each once: {options.step.name}:key=value"
        )
    return TransformResult(apply_user_function(options.step.name, network, arguments), network)


_USAGE: Mapping[str, str] = {
    "batch": "batch:8, or batch:8,x=0,state=1 for other axes than the first",
    "extract": "extract:a,b..c",
    "fold": "fold, or fold:limit=1MiB",
    "fuse_batchnorm": "fuse_batchnorm",
    "layout": "layout:NHWC, or layout:NHWC,input=image",
    "micro_batch": "micro_batch:100MiB,on=onnxruntime",
    "precision": "precision:float16,keep=Softmax,keep=/head/*,borders=true,overflow=keep",
    "sizes": "sizes:height=224,width=224",
}


def user_function(path: str, known: Collection[str] = ()) -> Callable[..., Any]:
    """Import what ``module:function`` names.

    Args:
        path: The import path.
        known: Names of transformations, one of which may have been meant.

    Raises:
        UnknownName: There is no such module, and its name is nearly that of a transformation.
        InvalidArgument: There is no such module or function, the module cannot be imported, or it is no function.

    Example:
        >>> user_function("deep_bench.network.transform.constants:fold").__name__
        'fold'
    """
    module, _, name = path.partition(":")
    try:
        holder = import_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's module does when it is imported
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise _missing(path, str(error.name), known) from error
        raise InvalidArgument(
            f"the transformation {path}: importing {module} failed: {_user_traceback(error, module)}"
        ) from error
    if not hasattr(holder, name):
        near = difflib.get_close_matches(name, vars(holder), n=1)
        file = getattr(holder, "__file__", None) or "the interpreter itself"
        advice = f"did you mean {module}:{near[0]}?" if near else f"the module that was found is {file}"
        raise InvalidArgument(f"the transformation {path}: module {module!r} has no {name!r}", _EXPECTED, advice)
    function = getattr(holder, name)
    if not callable(function):
        raise InvalidArgument(
            f"the transformation {path} is of type {type(function).__name__}, which cannot be called", _EXPECTED
        )
    return function


def _missing(path: str, module: str, candidates: Collection[str]) -> InvalidArgument | UnknownName:
    if module not in candidates and difflib.get_close_matches(module, candidates, n=1):
        return UnknownName("transformation", module, candidates)
    return InvalidArgument(
        f"the transformation {path}: there is no module {module!r}",
        f"one of {', '.join(sorted(candidates))}; or {_EXPECTED}" if candidates else _EXPECTED,
        "modules are looked for in the folder that the command is run in, and on PYTHONPATH",
    )


_EXPECTED = "the import path of a function from Network to Network: my_module:my_function"


def _user_traceback(error: BaseException, module: str) -> str:
    """What was raised, and the lines of the user's own code that led there."""
    message = "".join(traceback.format_exception_only(error)).strip()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_user_code(f.filename, module)]
    return "\n".join([message, *(line.rstrip("\n") for line in traceback.format_list(frames))])


def _is_user_code(file: str, module: str) -> bool:
    """Whether a file belongs to the user: to the module that was named, or neither to Python, to a library nor to us."""
    root = module.partition(".")[0]
    home = getattr(sys.modules.get(root), "__file__", None)
    if home is not None and root != deep_bench.__name__:
        named = Path(home)
        if Path(file) == named or (named.name == "__init__.py" and Path(file).is_relative_to(named.parent)):
            return True
    paths = sysconfig.get_paths()
    folders = [
        str(Path(str(deep_bench.__file__)).parent),
        *(paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")),
    ]
    return not file.startswith("<") and not any(Path(file).is_relative_to(folder) for folder in folders)


def apply_user_function(path: str, network: Network, stated: Mapping[str, str]) -> Network:
    """Call the function that an import path names.

    Args:
        path: The import path.
        network: What it is given.
        stated: Options, as they were written.

    Raises:
        InvalidArgument: It does not take these options, it fails, or it returns something else than a network.
    """
    function = user_function(path)
    _check_options(path, function, network, stated)
    try:
        result = function(network, **stated)
    except (Exception, SystemExit) as error:  # the user's function may fail in any way
        module = path.partition(":")[0]
        raise InvalidArgument(f"the transformation {path} failed: {_user_traceback(error, module)}") from error
    if not isinstance(result, Network):
        raise InvalidArgument(f"the transformation {path} returned a {type(result).__name__}", "a deep_bench.Network")
    return result


def _check_options(path: str, function: Callable[..., Any], network: Network, options: Mapping[str, str]) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # some of what is written in C tells nothing; it says for itself what it cannot take
        return
    try:
        signature.bind(network, **options)
    except TypeError as error:
        came = ",".join(f"{k}={v}" for k, v in options.items())
        raise InvalidArgument(
            f"the transformation {path} with {came or 'no options'}: {error}",
            f"options that {path}{signature} has, each once",
        ) from error


def difference(before: Network, after: Network) -> str:
    """What to say of a transformation that left a network as it was; empty if it changed something.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> difference(network, network.copy()), difference(network, network.with_sizes({"batch": 2}))
        ('changed nothing', '')
    """
    if _unchanged(before, after):
        return "changed nothing"
    if before.opset < after.opset and _unchanged(before.upgraded(after.opset), after):
        return f"changed nothing but the opset, from {before.opset} to {after.opset}"
    return ""


def _unchanged(before: Network, after: Network) -> bool:
    if before is after or before.model is after.model:
        return True
    borders = [(dict(n.opsets), *map(str, n.inputs), "", *map(str, n.outputs)) for n in (before, after)]
    return borders[0] == borders[1] and _same_constants(before, after) and list(_nodes(before)) == list(_nodes(after))


def _same_constants(before: Network, after: Network) -> bool:
    ours, theirs = before.graph.initializers, after.graph.initializers
    return set(ours) == set(theirs) and all(_same_tensor(ours[n].const_value, theirs[n].const_value) for n in ours)


def _same_tensor(a: ir.TensorProtocol | None, b: ir.TensorProtocol | None) -> bool:
    if a is b or a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _nodes(network: Network) -> Iterator[bytes]:
    for node in network.nodes:
        yield ir.to_proto(node).SerializeToString(deterministic=True)


STEPS: Mapping[str, Callable[[Network, _Options], TransformResult]] = {
    "batch": _batch,
    "extract": _extract,
    "fold": _fold,
    "fuse_batchnorm": _plainly(fuse_batchnorm),
    "layout": _layout,
    "micro_batch": _micro_batch,
    "precision": _precision,
    "sizes": _sizes,
}
"""Name to what applies it."""
