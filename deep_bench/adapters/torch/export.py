"""``export``: an ``nn.Module`` as a network."""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import onnx
import onnx_ir as ir
import torch
from torch import nn

from deep_bench.adapters.export import check_export, with_constants
from deep_bench.adapters.torch.arrays import to_array
from deep_bench.adapters.torch.wrap import Evaluating, Example, WrappedModule, example_tensors, wrap
from deep_bench.adapters.wrapping import accepts
from deep_bench.errors import FrameworkMissing, InvalidArgument, Unsupported
from deep_bench.graph import Network


def export(
    module: nn.Module,
    example: Example,
    *,
    outputs: Sequence[str] | None = None,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    opset: int | None = None,
    name: str | None = None,
    check: bool = True,
) -> Network:
    """Export a module in evaluation mode; see `deep_bench.graph.Network.from_torch`."""
    executor = wrap(module, example, outputs)
    tensors = example_tensors(module, example)
    with Evaluating(module):
        network = Network.from_proto(_exported(executor, tensors, dynamic or {}, opset), name=name or type(module).__name__)
        parameter_names = {key for key, _ in module.named_parameters(remove_duplicate=False)}
        network = with_constants(network, [key for key in network.parameters if key not in parameter_names])
        if check:
            arrays = {key: to_array(tensor) for key, tensor in tensors.items()}
            check_export(network, arrays, executor(arrays), network.name)
    return network


def _exported(
    executor: WrappedModule, tensors: Mapping[str, torch.Tensor], dynamic: Mapping[str, Mapping[int, str]], opset: int | None
) -> Any:
    by_name = accepts(executor.module.forward, list(tensors))
    shapes = _dimensions(executor.module, tensors, dynamic, by_name=by_name)
    try:
        with _quietly():
            program = torch.onnx.export(
                executor.module,
                () if by_name else tuple(tensors.values()),
                kwargs=dict(tensors) if by_name else None,
                input_names=list(tensors),
                output_names=list(executor.output_names),
                dynamic_shapes=shapes,
                optimize=False,
                opset_version=opset,
                dynamo=True,
                verbose=False,
            )
            assert program is not None
            proto = _folded(program.model, executor.parameters)
    except ModuleNotFoundError as error:
        raise FrameworkMissing(
            f"torch's exporter needs {error.name}", "the package onnxscript", "pip install deep-bench[export]"
        ) from error
    except Exception as error:  # the exporter raises what any of its steps raised
        raise Unsupported(
            f"torch {torch.__version__} cannot export {type(executor.module).__name__}: {_short(error)}",
            "a module that torch.export can trace",
            "the error above this one has torch's whole report",
        ) from error
    for node in (*proto.graph.node, *(n for f in proto.functions for n in f.node)):
        del node.metadata_props[:]  # the lines of the source that a node came from, with the paths on this machine
    return proto


def _folded(model: ir.Model, parameters: Collection[str]) -> onnx.ModelProto:
    """The model without what is computed from constants only; nothing that a parameter goes into is touched.

    torch's own optimizer would put a BatchNormalization's factors into the weights before it, which then have the name of a
    parameter, and other values.
    """
    from onnxscript import optimizer

    def folds(node: ir.Node) -> bool | None:
        return False if any(v is not None and v.name in parameters for v in node.inputs) else None

    optimizer.fold_constants(model, should_fold=folds)
    optimizer.remove_unused_nodes(model)
    return ir.to_proto(model)


def _dimensions(
    module: nn.Module, tensors: Mapping[str, torch.Tensor], dynamic: Mapping[str, Mapping[int, str]], *, by_name: bool
) -> Any:
    """The open dimensions as ``torch.export`` wants them."""
    unknown = [name for name in dynamic if name not in tensors]
    if unknown:
        raise InvalidArgument(f"open dimensions of {unknown[0]!r}", f"an input: one of {', '.join(tensors)}")
    if not dynamic:
        return None
    symbols = {name: torch.export.Dim(name) for axes in dynamic.values() for name in axes.values()}
    declared = {name: {axis: symbols[d] for axis, d in dynamic.get(name, {}).items()} for name in tensors}
    if by_name:
        return declared
    return tuple(declared.values()) if _takes_each(module, len(declared)) else (tuple(declared.values()),)


def _takes_each(module: nn.Module, count: int) -> bool:
    """Whether ``forward`` has so many parameters of its own, and not one for all of them (``*args``)."""
    parameters = inspect.signature(module.forward).parameters.values()
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) >= count


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what the exporter says of itself: of packages that it can do without, and of its own deprecated calls."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", "# The axis name", UserWarning)  # an open dimension that two inputs share
            warnings.filterwarnings("ignore", ".*_flat_weights", UserWarning)  # what torch's recurrent layers hold twice
            yield
    finally:
        logger.setLevel(before)


def _short(error: Exception) -> str:
    """The cause at the bottom, in one line without a terminal's colours."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = re.sub(r"\x1b\[\d+m", "", str(cause)).strip()
    return f"{type(cause).__name__}: {text.splitlines()[0] if text else ''}"
