"""``Network``: an ONNX graph with what the rest of deep_bench asks of it, and the other forms of a network.

These are a network in a newer opset, with its functions inlined, with a loss appended, with kernels of the user's in the
place of nodes, and one that another framework's code was exported to; the exporters lie in the adapters, and are named here
by string only.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.defs import OpSchema
from onnx_ir.passes.common import InlinePass, RemoveInitializersFromInputsPass

from deep_bench.errors import InvalidArgument, InvalidNetwork, Unsupported
from deep_bench.graph.edit import Edit, Names
from deep_bench.graph.node import (
    Kernel,
    attach_kernel,
    detach_kernel,
    is_learnt,
    is_standard,
    kernels_of,
    make_names_unique,
    only_sets_up,
    operator_name,
    subgraphs,
)
from deep_bench.graph.shapes import Types, inferred
from deep_bench.graph.upgrade import RULES
from deep_bench.registry import Registry
from deep_bench.tensor import STRING, Container, TensorSpec, is_inexact, text

__all__ = ["inline_functions", "newest_schema", "upgrade", "upgrade_nodes"]

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

        return with_loss(self, kind, output=output, target=target, name=name, **attributes)

    def upgraded(self, to: int = OPSET) -> Network:
        """The network in version ``to`` of the default operator set; values keep their names.

        Raises:
            Unsupported: An operator has no equivalent form in that version.
        """

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

        return with_kernel(self, match, operator)

    def without_kernels(self) -> Network:
        """The network with every node computed as the framework does it; itself where that is so already."""

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


def read_model(proto: onnx.ModelProto, name: str) -> ir.Model:
    """A ``ModelProto`` as ``onnx_ir`` holds it.

    Raises:
        InvalidNetwork: It has values that ``onnx_ir`` does not know (maps), no output, or one output twice.
    """
    # results are returned by name, so there must be some, under different names
    names = [value.name for value in proto.graph.output]
    if not names:
        raise InvalidNetwork(f"{name} has no output", "at least one", "export it again with the values that it is to return")
    for twice in (n for i, n in enumerate(names) if n in names[:i]):
        raise InvalidNetwork(
            f"{name} lists the output {twice!r} more than once",
            "outputs of different names: results are returned by name",
            "export it again with an Identity for each further output",
        )
    try:
        return ir.from_proto(proto)
    except ir.serde.SerdeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise InvalidNetwork(
            f"{name} cannot be read: {cause}",
            "values that are tensors, sequences or optionals",
            "a classifier that returns maps (ZipMap) can usually be exported without them",
        ) from error


SIMPLIFIED_LAYER_NORMALIZATION = "SimplifiedLayerNormalization"
_RUNTIME_FLOATS = ["tensor(float16)", "tensor(float)", "tensor(double)", "tensor(bfloat16)"]


@contextmanager
def known_to_onnx() -> Iterator[None]:
    """Let onnx's own checks pass ONNX Runtime's SimplifiedLayerNormalization, which is written in the default domain.

    Example:
        >>> with known_to_onnx():
        ...     onnx.defs.has("SimplifiedLayerNormalization")
        True
    """
    if onnx.defs.has(SIMPLIFIED_LAYER_NORMALIZATION):
        yield
        return
    onnx.defs.register_schema(_runtime_schema())
    try:
        yield
    finally:
        onnx.defs.deregister_schema(SIMPLIFIED_LAYER_NORMALIZATION, 1, "")


def _runtime_schema() -> OpSchema:
    formal, optional = OpSchema.FormalParameter, OpSchema.FormalParameterOption.Optional
    kinds = {"axis": OpSchema.AttrType.INT, "epsilon": OpSchema.AttrType.FLOAT, "stash_type": OpSchema.AttrType.INT}
    return OpSchema(
        SIMPLIFIED_LAYER_NORMALIZATION,
        "",
        1,
        inputs=[formal("X", "T"), formal("scale", "V")],
        outputs=[formal("Y", "V"), formal("inv_std_var", "U", param_option=optional)],
        type_constraints=[
            ("T", _RUNTIME_FLOATS, ""),
            ("V", _RUNTIME_FLOATS, ""),
            ("U", ["tensor(float)", "tensor(double)"], ""),
        ],
        attributes=[OpSchema.Attribute(name, kind, required=False) for name, kind in kinds.items()],
    )


_OLDEST_TARGET = 21


def upgrade(network: Network, to: int = OPSET) -> Network:
    """The network in version ``to`` of the default operator set, with the same results.

    Nodes and values keep their names, so that results can be compared by name. Nodes and initializers that an older form
    needs in addition get new names. Functions that the file defines are inlined. Inputs with an initializer, as all
    initializers were before IR version 4, are initializers only.

    Args:
        network: A network in any opset up to `OPSET`; it is not changed. If it uses no operator of the default operator
            set, it counts as written in `OPSET`.
        to: The version to bring it to, at least 21: rules write forms that are the same from then on.

    Returns:
        A new network, or the same one if it is in that version already and defines no functions.

    Raises:
        Unsupported: A node has no exact equivalent; the message names it and says why. Or the opset is newer.

    Example:
        >>> import deep_bench as db
        >>> upgrade(db.load("digits-cnn")).opset == OPSET
        True

    Source:
        The ONNX operators' changelog (``onnx.defs.get_all_schemas_with_history``).
    """
    if network.opset == to and not network.model.functions:
        return network
    if to < _OLDEST_TARGET:
        raise InvalidArgument(f"an upgrade to opset {to}", f"opset {_OLDEST_TARGET} to {OPSET}")
    if not OLDEST_OPSET <= network.opset <= to:
        raise Unsupported(f"{network.name} is written in opset {network.opset}", f"opset {OLDEST_OPSET} to {to}")
    changed = inline_functions(network)
    RemoveInitializersFromInputsPass()(changed.model)
    names, types = Names(changed), Types(changed)
    for node in list(changed.all_nodes()):
        if is_standard(node):
            _upgrade_node(node, node.version or network.opset, names, types, to)
            node.version = None
    imports = changed.model.graph.opset_imports
    imports.pop("ai.onnx", None)
    imports[""] = to
    needed = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", to)])
    changed.model.ir_version = max(changed.model.ir_version, needed)
    return Network(changed.model, name=network.name, source=None)


def upgrade_nodes(graph: ir.Graph, opset: int, names: Names) -> None:
    """Bring the nodes of a graph that belongs to no network (an operator's body) to version `OPSET`, in place.

    Args:
        graph: Its nodes are in version ``opset``.
        opset: The version they are written in.
        names: Where new names come from.
    """
    if opset < OPSET:
        for node in list(graph.all_nodes()):
            if is_standard(node):
                _upgrade_node(node, opset, names, Types(None))


def inline_functions(network: Network) -> Network:
    """A copy of the network in which the functions that its file defines are replaced by their bodies.

    Raises:
        InvalidNetwork: A function calls itself.
        Unsupported: A function takes a graph as an attribute.
    """
    changed = network.copy()
    model = changed.model
    if not model.functions:
        return changed
    for function in model.functions.values():
        # A function may be written in another version than the network: each node remembers its own.
        version = function.opset_imports.get("", function.opset_imports.get("ai.onnx", network.opset))
        for node in function.all_nodes():
            node.version = version if is_standard(node) else node.version
        function.opset_imports.clear()
        function.opset_imports.update(model.opset_imports)
    try:
        InlinePass()(model)
    except ir.passes.PreconditionError as error:
        raise InvalidNetwork(f"a function of {network.name} calls itself: {error}", "functions without a cycle") from error
    except ValueError as error:
        raise Unsupported(f"a function of {network.name} cannot be inlined: {error}") from error
    return Network(model, name=network.name, source=None)


def _upgrade_node(node: ir.Node, opset: int, names: Names, types: Types, to: int = OPSET) -> None:
    if node.op_type == SIMPLIFIED_LAYER_NORMALIZATION:
        return  # it has one version
    edit = Edit(node, opset, names, types)
    if not onnx.defs.has(node.op_type, opset):
        raise edit.unsupported(f"the standard has no such operator in opset {opset}")
    for version, rule in RULES.get(node.op_type, ()):
        if opset < version <= to:
            rule(edit)
    schema = newest_schema(node.op_type, to)
    if schema is None or schema.deprecated:
        raise edit.unsupported(f"opset {to} has no such operator")
    unknown = sorted(set(node.attributes) - set(schema.attributes))
    if unknown:
        raise edit.unsupported(f"opset {to} has no attribute {unknown[0]!r} for {operator_name(node)}")


@functools.cache
def newest_schema(op_type: str, opset: int = OPSET) -> onnx.defs.OpSchema | None:
    """The standard's schema of an operator of the default domain, the newest up to a version."""
    try:
        return onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return None


_LOSS_SINCE_OPSET = 13
"""The first in which the losses take bfloat16, and reductions their axes as an input."""


_UPGRADED_TO = 21
"""What an older network is brought to: gradients are written in it too."""


_REDUCTIONS = ("mean", "none", "sum")
_ARGUMENTS = ("name", "output", "target")


def with_loss(network: Network, kind: str, *, output: str, target: str | None, name: str, **attributes: Any) -> Network:
    """See `Network.with_loss`."""
    if kind not in LOSSES:
        raise InvalidArgument(f"loss {kind!r}", f"one of {', '.join(LOSSES)}", _nearest(str(kind), LOSSES))
    _check_attributes(kind, attributes)
    for argument, value in {"output": output, "target": target, "name": name}.items():
        if value == "" or not isinstance(value, str | None if argument == "target" else str):
            raise InvalidArgument(f"{argument}={value!r}", "the name of a value")
    changed = (network if network.opset >= _LOSS_SINCE_OPSET else network.upgraded(_UPGRADED_TO)).copy()
    site = _NetworkEnd(changed, output, name)
    if target is not None and target in site.values:
        raise InvalidArgument(f"{network.name} has a value {target!r} already", "a new name for the target")
    if name in site.values:
        raise InvalidArgument(f"{network.name} has a value {name!r} already", "a new name for the loss: name=…")
    takes_target = kind != "Sum"
    if takes_target != (target is not None):
        raise InvalidArgument(
            f"{kind} with target {target!r}",
            "the name of a new input, such as target='label'" if takes_target else "no target",
        )
    node_attributes = {key: int(value) if key == "ignore_index" else value for key, value in attributes.items()}
    LOSSES[kind](site, str(target), node_attributes)
    return Network(changed.model, name=network.name, source=None)


def _check_attributes(kind: str, attributes: Mapping[str, Any]) -> None:
    """Whether a loss has these attributes, with values that ONNX has for them."""
    allowed = ATTRIBUTES.get(kind, ())
    for name, value in attributes.items():
        if name not in allowed:
            advice = _nearest(name, (*allowed, *_ARGUMENTS))
            raise InvalidArgument(
                f"{kind} has no attribute {name!r}", f"some of {', '.join(allowed)}" if allowed else "no attributes", advice
            )
        if name == "reduction" and value not in _REDUCTIONS:
            raise InvalidArgument(
                f"reduction={value!r}", f"one of {', '.join(_REDUCTIONS)}", _nearest(str(value), _REDUCTIONS)
            )
        if name == "ignore_index" and (isinstance(value, bool) or not isinstance(value, int | np.integer)):
            raise InvalidArgument(f"ignore_index={value!r}", "an integer, the label of what does not count")


def _nearest(name: str, candidates: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(candidates), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


class _NetworkEnd:
    """The end of a network, where nodes are appended."""

    def __init__(self, network: Network, output: str, name: str) -> None:
        self.graph, self._names, self._loss = network.graph, Names(network), name
        graph_values = (*self.graph.inputs, *self.graph.initializers.values(), *(v for n in self.graph for v in n.outputs))
        self.values = {str(v.name): v for v in graph_values}
        if output not in self.values:
            outputs = ", ".join(spec.name for spec in network.outputs)
            raise InvalidArgument(
                f"{network.name} has no value {output!r}", f"a value of its graph; its outputs are {outputs}"
            )
        self.y = self.values[output]
        inferred_type = inferred(network).get(output)
        if inferred_type is None or not inferred_type.elem_type:
            raise InvalidNetwork(f"the type of {output!r} in {network.name} is unknown", "a value with a declared type")
        self.dtype = ir.DataType(inferred_type.elem_type)
        self.dims: list[Any] | None = None
        if inferred_type.HasField("shape"):
            self.dims = [d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in inferred_type.shape.dim]
        elif self.y.shape is not None:
            self.dims = list(self.y.shape)

    def target(self, name: str, dtype: ir.DataType, dims: list[Any]) -> ir.Value:
        """A new input."""
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(dims))
        self.graph.inputs.append(value)
        return value

    def shape(self, least: int) -> list[Any]:
        """The dimensions of the output."""
        if self.dims is None or len(self.dims) < least:
            raise InvalidArgument(
                f"{self.y.name!r} has {'an unknown shape' if self.dims is None else f'shape {self.dims}'}",
                f"at least {least} dimensions, known before a run",
            )
        return self.dims

    def node(self, op_type: str, *inputs: ir.Value, name: str | None = None, **attributes: Any) -> ir.Value:
        """A new node, and its output."""
        output = ir.Value(name=name or self._names.fresh(f"{self._loss}.{op_type}"))
        node_attributes = ir.convenience.convert_attributes(attributes)
        self.graph.append(
            ir.Node(
                "", op_type, inputs, node_attributes, outputs=[output], name=self._names.fresh(f"{self._loss}.{op_type}")
            )
        )
        return output

    def end(self, op_type: str, *inputs: ir.Value, **attributes: Any) -> None:
        """The node that gives the loss: a scalar, unless ``reduction`` is ``"none"``."""
        loss = self.node(op_type, *inputs, name=self._loss, **attributes)
        loss.type = ir.TensorType(self.dtype)
        loss.shape = None if attributes.get("reduction") == "none" else ir.Shape([])
        self.graph.outputs.append(loss)


def _by_class(op_type: str) -> Callable[[_NetworkEnd, str, Mapping[str, Any]], None]:
    """A loss of scores or log-probabilities [N, C, …] and labels [N, …]."""

    def append(site: _NetworkEnd, target: str, attributes: Mapping[str, Any]) -> None:
        batch, _, *spatial = site.shape(2)
        labels = site.target(target, ir.DataType.INT64, [batch, *spatial])
        site.end(op_type, site.y, labels, **attributes)

    return append


def _mean_of(*op_types: str) -> Callable[..., None]:
    """The mean of a function of the difference between the output and a target of its shape."""

    def append(site: _NetworkEnd, target: str, _: Mapping[str, Any]) -> None:
        difference = site.node("Sub", site.y, site.target(target, site.dtype, site.shape(0)))
        for op_type in op_types:
            inputs = (difference, difference) if op_type == "Mul" else (difference,)
            difference = site.node(op_type, *inputs)
        site.end("ReduceMean", difference, keepdims=0)

    return append


def _sum(site: _NetworkEnd, _: str, __: Mapping[str, Any]) -> None:
    site.end("ReduceSum", site.y, keepdims=0)


LOSSES: Mapping[str, Callable[[_NetworkEnd, str, Mapping[str, Any]], None]] = {
    "MeanAbsoluteError": _mean_of("Abs"),
    "MeanSquaredError": _mean_of("Mul"),
    "NegativeLogLikelihoodLoss": _by_class("NegativeLogLikelihoodLoss"),
    "SoftmaxCrossEntropyLoss": _by_class("SoftmaxCrossEntropyLoss"),
    "Sum": _sum,
}
"""Name to what appends the loss."""


ATTRIBUTES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {kind: tuple(onnx.defs.get_schema(kind).attributes) for kind in LOSSES if onnx.defs.has(kind)}
)
"""Name to the attributes of a loss that is an operator of ONNX; others have none."""


def with_kernel(network: Network, match: str | Callable[[ir.Node], bool], operator: Kernel) -> Network:
    """The network with the kernel attached to nodes; see `Network.replace`."""

    if not isinstance(operator, Kernel) or isinstance(operator, type):
        came = f"the class {operator.__name__}" if isinstance(operator, type) else f"a {type(operator).__name__}"
        raise InvalidArgument(
            f"{came} as a kernel", "an object of a subclass of deep_bench.Operator", _kernel_advice(operator)
        )
    changed = inline_functions(network)  # a copy; calls of functions are gone when it runs
    nodes = [node for node in changed.all_nodes() if node.op_type != "Constant" and _matches(node, match)]
    if not nodes:
        raise _no_match(changed, match)
    for node in nodes:
        where = f"the node {node.name!r} ({operator_name(node)})"
        if subgraphs(node):
            raise InvalidArgument(f"{operator.name} in the place of {where}, which holds graphs of its own", "another node")
        claimed = getattr(operator, "target", None)
        if isinstance(claimed, str) and claimed.removeprefix("ai.onnx::") != _plain_name(node):
            raise InvalidArgument(
                f"{operator.name}, which computes {claimed}, in the place of {where}",
                f"a kernel that computes {_plain_name(node)}, or a NumPy function",
                "match other nodes, or say what it computes",
            )
        attach_kernel(node, operator)
    return Network(changed.model, name=network.name)


def without_kernels(network: Network) -> Network:
    """The network without any kernel; see `Network.without_kernels`."""
    if not network.kernels:
        return network
    changed = network.copy()
    for node in changed.all_nodes():
        detach_kernel(node)
    return changed


def _kernel_advice(operator: object) -> str:
    if isinstance(operator, type):
        return f"give {operator.__name__}(…)"
    return "wrap a function: db.operators.wrap(function, computes=…)" if callable(operator) else ""


def _matches(node: ir.Node, match: str | Callable[[ir.Node], bool]) -> bool:
    if not isinstance(match, str):
        return bool(match(node))
    return match in (operator_name(node), _plain_name(node)) or fnmatchcase(str(node.name), match) or match == node.name


def _plain_name(node: ir.Node) -> str:
    """The operator as `deep_bench.Operator.computes` writes it: ``com.microsoft::BiasGelu``."""
    return node.op_type if is_standard(node) else f"{node.domain}::{node.op_type}"


def _no_match(network: Network, match: str | Callable[[ir.Node], bool]) -> InvalidArgument:
    operators = sorted({operator_name(node) for node in network.all_nodes()})
    names = [str(node.name) for node in network.all_nodes()]
    expected = f"an operator ({', '.join(operators)}), the name of a node, a pattern of names, or a function of a node"
    if not isinstance(match, str):
        return InvalidArgument(f"the function matches no node of {network.name}", expected)
    near = difflib.get_close_matches(match, [*operators, *names], n=1, cutoff=0.5)
    advice = f"did you mean {near[0]!r}?" if near else ""
    return InvalidArgument(f"{match!r} matches no node of {network.name}", expected, advice)


exporters = Registry(
    "exporter",
    "deep_bench.exporters",
    builtin={
        "keras": "deep_bench.adapters.tensorflow.export:export",
        "torch": "deep_bench.adapters.torch.export:export",
    },
    requires={"keras": ("tensorflow", "tf2onnx"), "torch": ("torch", "onnxscript")},
    extras={"keras": "deep-bench[tensorflow,export]", "torch": "deep-bench[torch,export]"},
)


def exported(framework: str, *arguments: Any, **options: Any) -> Network:
    """A network made by one of the exporters.

    Args:
        framework: The exporter's name.
        arguments, options: What it takes.

    Raises:
        UnknownName: No such exporter.
        FrameworkMissing: A package that it needs is not installed.
    """
    network: Network = exporters[framework](*arguments, **options)
    return network


OLDEST_OPSET = 1
