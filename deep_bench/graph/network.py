"""``Network``: an ONNX graph with what the rest of deep_bench asks of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import InvalidArgument, InvalidNetwork, Unsupported
from deep_bench.graph.attached import Kernel, kernels_of
from deep_bench.graph.naming import make_names_unique
from deep_bench.graph.reading import read_model
from deep_bench.graph.setting import is_learnt, only_sets_up
from deep_bench.tensor import STRING, Container, TensorSpec, is_inexact, text

OPSET = 28
"""The version of the default operator set that references and adapters are written for."""


class Network:
    """An ONNX network.

    Networks are values: every method that changes something returns a new network. Nodes and values always have unique
    names, so that results can be compared by name between forms of one network.

    Args:
        model: The network as ``onnx_ir`` holds it; not modified later.
        name: How reports call it; by default the graph's own name.
        source: The file it was read from, if any.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> network.inputs[0].name, network.inputs[0].shape
        ('image', ('batch', 1, 8, 8))
    """

    def __init__(self, model: ir.Model, *, name: str | None = None, source: Path | None = None) -> None:
        make_names_unique(model.graph)
        self.model = model
        self.name = name or model.graph.name or "network"
        self.source = source

    @classmethod
    def from_proto(cls, proto: onnx.ModelProto, *, name: str | None = None) -> Network:
        """A network from a ``ModelProto`` in memory.

        Raises:
            InvalidNetwork: It has values that are neither tensors, sequences nor optionals (maps), no output, or one
                output twice.
        """
        return cls(read_model(proto, name or proto.graph.name), name=name)

    @classmethod
    def from_torch(cls, module: Any, example: Any, **options: Any) -> Network:
        """A ``torch.nn.Module`` in evaluation mode as a network, through ``torch.onnx.export``.

        The network is run by the reference on the example, and must give what the module gives, but for rounding. It has
        the module's parameters under their names; only what depends on constants alone is folded. Other constants that
        training must leave alone, such as buffers and a recurrent layer's first state, are ``Constant`` nodes.

        Args:
            module: The module.
            example: Inputs for it: tensors or arrays by name, or in the order of the parameters of ``forward``.
            **options: ``outputs``: names of what it returns; ``dynamic``: input to axis to name of each open dimension
                (``{"image": {0: "batch"}}``; PyTorch wants an example with more than one element there); ``opset``;
                ``name``; ``check=False`` to take the network unchecked.

        Raises:
            FrameworkMissing: torch or onnxscript is not installed.
            Unsupported: torch cannot export it, or it cannot be checked.
            InvalidNetwork: The network computes something else than the module.

        Example:
            >>> import torch
            >>> module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
            >>> network = Network.from_torch(module, {"x": torch.ones(4, 3)}, outputs=["y"], dynamic={"x": {0: "batch"}})
            >>> [str(spec) for spec in network.inputs], [node.op_type for node in network.nodes]
            (['x: float32[batch, 3]'], ['Gemm', 'Tanh'])
        """
        from deep_bench.graph.export import exported

        return exported("torch", module, example, **options)

    @classmethod
    def from_keras(cls, model: Any, example: Any = None, **options: Any) -> Network:
        """A functional or sequential Keras model on TensorFlow as a network, through Keras' own exporter and tf2onnx.

        The network is run by the reference, and must give what the model gives, but for rounding. What no trainable weight
        went into is in ``Constant`` nodes, so that training leaves it alone.

        Args:
            model: The model.
            example: Inputs by name to check the network with; drawn by default.
            **options: ``inputs`` and ``outputs``: names, in order; ``opset``; ``name``; ``check=False`` to take the
                network unchecked.

        Raises:
            FrameworkMissing: TensorFlow or tf2onnx is not installed.
            Unsupported: It cannot be exported, or it cannot be checked.
            InvalidNetwork: The network computes something else than the model.
        """
        from deep_bench.graph.export import exported

        return exported("keras", model, example, **options)

    # What it is

    @property
    def graph(self) -> ir.Graph:
        """The graph as ``onnx_ir`` holds it; read it, do not change it."""
        return self.model.graph

    @property
    def nodes(self) -> tuple[ir.Node, ...]:
        """The nodes of the outermost graph, in topological order."""
        return tuple(self.graph)

    def all_nodes(self) -> Iterator[ir.Node]:
        """The nodes of the graph and of all subgraphs in it."""
        return self.graph.all_nodes()

    @property
    def opsets(self) -> Mapping[str, int]:
        """The version of each operator set in use, by domain (``""`` is the default one)."""
        return {("" if d == "ai.onnx" else d): v for d, v in self.graph.opset_imports.items()}

    @property
    def opset(self) -> int:
        """The version of the default operator set."""
        return self.opsets.get("", OPSET)

    @cached_property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What must be fed: the graph's inputs that have no initializer."""
        return tuple(tensor_spec(v) for v in self.graph.inputs if v.name not in self.graph.initializers)

    @cached_property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What the network returns, as far as the file declares it."""
        return tuple(tensor_spec(v) for v in self.graph.outputs)

    @cached_property
    def initializers(self) -> Mapping[str, np.ndarray]:
        """Every initializer of the outermost graph."""
        return {n: text(v.const_value.numpy()) for n, v in self.graph.initializers.items() if v.const_value is not None}

    @cached_property
    def parameters(self) -> Mapping[str, np.ndarray]:
        """The initializers that training would change: floating point, and more than an operator's setting.

        A floating-point initializer counts unless it feeds an input that only sets an operator up (the scales of ``Resize``,
        the limits of ``Clip``) or holds running statistics. One of a single element counts if it is a layer's weight, bias,
        scale or slope; others are constants of a formula, such as an epsilon.
        """
        return {
            n: a
            for n, a in self.initializers.items()
            if is_inexact(a.dtype)
            and not only_sets_up(self.graph.initializers[n])
            and (a.size > 1 or (a.size == 1 and is_learnt(self.graph.initializers[n])))
        }

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the serialised network, external data included; of kernels it tells nothing."""
        digest = hashlib.sha256()
        for value in _stored(self.model):
            if isinstance(value.const_value, ir.ExternalTensor):
                digest.update(value.const_value.tobytes())
        if self.source is not None:
            digest.update(self.source.read_bytes())
        else:
            digest.update(self.without_kernels().to_proto().SerializeToString(deterministic=True))
        return digest.hexdigest()

    @property
    def open_dimensions(self) -> tuple[str, ...]:
        """The names of the input dimensions that are not fixed, in order of appearance."""
        return tuple(dict.fromkeys(d for spec in self.inputs for d in spec.open_dimensions))

    # Other forms of it

    def copy(self) -> Network:
        """A network whose graph may be changed; tensors are shared."""
        return Network(self.model.clone(), name=self.name, source=None)

    def with_sizes(self, sizes: Mapping[str, int]) -> Network:
        """The network with open input dimensions fixed.

        Args:
            sizes: Dimension name to size. A dimension without a name is called ``input.axis`` (``x.0``).

        Raises:
            InvalidArgument: A name that no input has, or a negative size.
        """
        unknown = sorted(set(sizes) - set(self.open_dimensions))
        if unknown:
            raise InvalidArgument(
                f"{self.name} has no open dimension {unknown[0]!r}",
                f"one of {', '.join(self.open_dimensions) or '(all dimensions are fixed)'}",
            )
        negative = [name for name, size in sizes.items() if size < 0]
        if negative:
            raise InvalidArgument(f"size {sizes[negative[0]]} for dimension {negative[0]!r}", "a size of at least 0")
        changed = self.copy()
        for value, spec in zip(_fed(changed.graph), self.inputs, strict=True):
            value.shape = ir.Shape([sizes.get(d, d) if isinstance(d, str) else d for d in spec.shape])
        return Network(changed.model, name=self.name, source=None)

    def with_outputs(self, names: Sequence[str]) -> Network:
        """The network with these values of its outermost graph as outputs.

        Raises:
            InvalidArgument: A name that no value of the outermost graph has.
        """
        changed = self.copy()
        values = {v.name: v for v in changed.graph.inputs} | {v.name: v for n in changed.graph for v in n.outputs}
        missing = [name for name in names if name not in values]
        if missing:
            raise InvalidArgument(f"{self.name} has no value {missing[0]!r}", "the name of a node's output")
        changed.graph.outputs[:] = [values[name] for name in names]
        return Network(changed.model, name=self.name, source=None)

    def with_loss(
        self, kind: str, *, output: str, target: str | None = None, name: str = "loss", **attributes: Any
    ) -> Network:
        r"""The network with a loss of one of its values as a further output.

        ========================= ================================================================ ===================
        ``kind``                  loss                                                             target
        ========================= ================================================================ ===================
        SoftmaxCrossEntropyLoss   ONNX's, of scores [N, C, …]                                      int64 labels [N, …]
        NegativeLogLikelihoodLoss ONNX's, of logarithms of probabilities [N, C, …]                 int64 labels [N, …]
        MeanSquaredError          :math:`\frac{1}{n} \sum (y - t)^2`                               of the output's shape
        MeanAbsoluteError         :math:`\frac{1}{n} \sum |y - t|`                                 of the output's shape
        Sum                       :math:`\sum y`                                                   none
        ========================= ================================================================ ===================

        Args:
            kind: One of these.
            output: Name of the value that it is the loss of.
            target: Name of a new input, what the output should be.
            name: Name of the loss, a scalar in the output's element type.
            **attributes: Of the first two, which are operators of ONNX: ``reduction`` (``"mean"``, ``"sum"``, or ``"none"``
                for one loss for each label, which is no scalar) and ``ignore_index``, an integer.

        Raises:
            InvalidArgument: A loss, value or attribute that does not exist, an attribute's value that ONNX does not know, or
                a name that is taken.

        Example:
            >>> import deep_bench as db
            >>> network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
            >>> [str(spec) for spec in network.inputs], network.outputs[-1].name
            (['image: float32[batch, 1, 8, 8]', 'label: int64[batch]'], 'loss')
        """
        from deep_bench.graph.loss import with_loss

        return with_loss(self, kind, output=output, target=target, name=name, **attributes)

    def upgraded(self, to: int = OPSET) -> Network:
        """The network in version ``to`` of the default operator set; values keep their names.

        Raises:
            Unsupported: An operator has no equivalent form in that version.
        """
        from deep_bench.graph.upgrade import upgrade

        return upgrade(self, to)

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """Name of each node that a kernel of the user's computes, to that kernel; see `replace`."""
        return kernels_of(self.all_nodes())

    def replace(self, match: str | Callable[[ir.Node], bool], operator: Kernel) -> Network:
        """The network with nodes computed by a kernel of the user's.

        What a node is meant to compute stays what it says: checks compare the kernel with that. The reference, PyTorch,
        TensorFlow and ONNX Runtime run such networks; every other adapter refuses them.

        Args:
            match: An ONNX operator (``"Gelu"``, ``"com.microsoft:BiasGelu"``), a node's name, a pattern of names
                (``"encoder.*"``), or a function that says of a node whether it is meant.
            operator: A `deep_bench.Operator` that computes what these nodes do.

        Raises:
            InvalidArgument: No node is meant, or one that the kernel does not claim to compute or that holds graphs.

        Example:
            >>> import numpy as np, deep_bench as db
            >>> relu = db.operators.wrap(lambda x: np.maximum(x, 0), computes="Relu")
            >>> network = db.load("digits-cnn").replace("Relu", relu)
            >>> len(network.kernels), len(network.without_kernels().kernels)
            (6, 0)
        """
        from deep_bench.graph.replace import replace

        return replace(self, match, operator)

    def without_kernels(self) -> Network:
        """The network with every node computed as the framework does it; itself where that is so already."""
        from deep_bench.graph.replace import without_kernels

        return without_kernels(self)

    # Writing it

    def to_proto(self) -> onnx.ModelProto:
        """The network as a ``ModelProto``, with all tensors inside.

        Raises:
            Unsupported: Kernels compute some of its nodes, which a file cannot hold.
        """
        self._check_writable()
        return ir.to_proto(self._self_contained())

    def save(self, path: str | Path) -> Path:
        """Write the network as one ``.onnx`` file, with its tensors in a ``.data`` file beside it above 1 GiB.

        Raises:
            Unsupported: Kernels compute some of its nodes, which a file cannot hold.
        """
        self._check_writable()
        path = Path(path)
        size = sum(a.nbytes for a in self.initializers.values())
        if size > 2**30:
            ir.save(self.model, path, external_data=f"{path.name}.data")
        else:
            ir.save(self._self_contained(), path)
        return path

    def _check_writable(self) -> None:
        if kernels := self.kernels:
            shown = ", ".join(f"{name!r} ({kernel.name})" for name, kernel in kernels.items())
            raise Unsupported(
                f"{self.name} has nodes that kernels compute, which an ONNX file cannot hold: {shown}",
                "a network without kernels",
                "write network.without_kernels(), and keep the kernels' own source",
            )

    def _self_contained(self) -> ir.Model:
        """The model with all tensors in memory: those in files are found from the network's own folder only."""
        if not any(isinstance(v.const_value, ir.ExternalTensor) for v in _stored(self.model)):
            return self.model
        model = self.model.clone()
        for value in _stored(model):
            tensor = value.const_value
            if isinstance(
                tensor, ir.ExternalTensor
            ):  # copied, not converted: conversion would close the file for this network
                value.const_value = ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=tensor.name)
        return model

    def __repr__(self) -> str:
        nodes = sum(1 for _ in self.all_nodes())
        return f"Network({self.name!r}, opset {self.opset}, {nodes} nodes, inputs {[str(s) for s in self.inputs]})"


def _stored(model: ir.Model) -> Iterator[ir.Value]:
    """The initializers of the graph and of all subgraphs."""
    return (value for graph in model.graphs() for value in graph.initializers.values())


def _fed(graph: ir.Graph) -> list[ir.Value]:
    return [v for v in graph.inputs if v.name not in graph.initializers]


def tensor_spec(value: ir.Value) -> TensorSpec:
    """A value's declaration.

    Raises:
        InvalidNetwork: It is not declared, or as something else than a tensor, a sequence or an optional.
    """
    kind, containers = value.type, list[Container]()
    while isinstance(kind, ir.SequenceType | ir.OptionalType):
        containers.append("sequence" if isinstance(kind, ir.SequenceType) else "optional")
        kind = kind.elem_type
    if not isinstance(kind, ir.TensorType) or kind.dtype == ir.DataType.UNDEFINED:
        raise InvalidNetwork(
            f"{value.name!r} is declared as {value.type or 'nothing'}",
            "inputs and outputs that are tensors, sequences or optionals with a known element type",
        )
    dtype = STRING if kind.dtype == ir.DataType.STRING else np.dtype(kind.dtype.numpy())
    dims = value.shape if value.shape is not None and not containers else ()
    shape = tuple(_dimension(value, i, d) for i, d in enumerate(dims))
    return TensorSpec(str(value.name), shape, dtype, tuple(containers))


def _dimension(value: ir.Value, axis: int, dim: int | ir.SymbolicDim) -> int | str:
    if isinstance(dim, int) and dim >= 0:
        return dim
    name = dim.value if isinstance(dim, ir.SymbolicDim) else None
    # Exporters write "?" or "-1" for several unrelated dimensions, so such a name names nothing.
    return name if name and name not in ("?", "-1", "None", "unk") else f"{value.name}.{axis}"
