"""Names that stand for code which is imported on first use only: of frameworks and their like, and of whole packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from deep_bench.errors import FrameworkMissing, InvalidArgument, UnknownName


class Registry(Mapping[str, Any]):
    """A mapping from a name to an object that lies behind an import path.

    Built-in names come from a literal, others from entry points of installed packages. Iterating imports nothing; looking a
    name up imports its module on first use. Code that is not registered is named by its import path,
    ``"package.module:attribute"``, anywhere that a name is taken.

    Args:
        kind: What the names stand for, for messages (``"framework"``).
        group: The entry-point group that other packages use (``"deep_bench.frameworks"``).
        builtin: Name to ``"package.module:attribute"``.
        requires: Name to the packages (import names) that must be installed for it.
        extras: Name to the pip requirement that installs what ``requires`` names.
        made: What lies behind a name is a function without arguments that makes the object.

    Example:
        >>> shapes = Registry("shape", "example.shapes", {"ordered": "collections:OrderedDict"})
        >>> list(shapes), shapes["ordered"].__name__
        (['ordered'], 'OrderedDict')
    """

    def __init__(
        self,
        kind: str,
        group: str,
        builtin: Mapping[str, str],
        requires: Mapping[str, tuple[str, ...]] | None = None,
        extras: Mapping[str, str] | None = None,
        *,
        made: bool = False,
    ) -> None:
        self.kind = kind
        self.group = group
        self._builtin = dict(builtin)
        self._requires = dict(requires or {})
        self._extras = dict(extras or {})
        self._made = made

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._builtin, *self._foreign()}))

    def __len__(self) -> int:
        return len({*self._builtin, *self._foreign()})

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in self._foreign()

    def __getitem__(self, name: str) -> Any:
        """The object behind ``name``.

        Raises:
            UnknownName: No such name; the nearest known one is suggested.
            FrameworkMissing: The name is known, but a package it needs is not installed.
        """
        self.require(name)
        entry = self._found(name)
        return entry() if self._made and callable(entry) else entry

    def _found(self, name: str) -> Any:
        if name in self._builtin:
            return self._imported(self._builtin[name])
        return self._imported(name) if ":" in name else self._foreign()[name].load()

    def _imported(self, path: str) -> Any:
        module, _, attribute = path.partition(":")
        value = getattr(import_module(module), attribute, None)
        if value is None:
            raise InvalidArgument(f"{self.kind} {path!r}: {module} has no {attribute!r}", "package.module:attribute")
        return value

    def require(self, name: str) -> None:
        """Make sure that ``name`` can be looked up; imports nothing.

        Raises:
            UnknownName: No such name.
            FrameworkMissing: A package it needs is not installed.
        """
        missing = self.missing(name)
        if missing:
            requirement = self._extras.get(name, " ".join(missing))
            raise FrameworkMissing(
                f"{self.kind} {name!r} needs {', '.join(missing)}, which is not installed here",
                advice=f"pip install '{requirement}'",
            )

    def missing(self, name: str) -> tuple[str, ...]:
        """The packages that ``name`` needs and that are not installed; imports nothing.

        Raises:
            UnknownName: No such name.
        """
        module, colon, _ = name.partition(":")
        if colon and not _exists(module):
            raise InvalidArgument(
                f"{self.kind} {name!r}: there is no module {module!r} on this interpreter's path",
                f"package.module:attribute, or one of {', '.join(self)}",
            )
        if not colon and name not in self:
            raise UnknownName(self.kind, name, self, "pick one of these, or install the package that provides it")
        return tuple(p for p in self._requires.get(name, ()) if find_spec(p) is None)

    def _foreign(self) -> dict[str, EntryPoint]:
        return {e.name: e for e in entry_points(group=self.group)}


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package on the way to it
        return False


frameworks = Registry(
    "framework",
    "deep_bench.frameworks",
    builtin={
        "onnxruntime": "deep_bench.adapters.onnxruntime:OnnxRuntimeAdapter",
        "reference": "deep_bench.reference.network:ReferenceAdapter",
        "tensorflow": "deep_bench.adapters.tensorflow:TensorFlowAdapter",
        "torch": "deep_bench.adapters.torch:TorchAdapter",
    },
    requires={"onnxruntime": ("onnxruntime",), "tensorflow": ("tensorflow",), "torch": ("torch",)},
    extras={name: f"deep-bench[{name}]" for name in ("onnxruntime", "tensorflow", "torch")},
)

_OPTIMIZERS = {
    "accelegrad": "deep_bench.reference.training.sgd:AcceleGrad",
    "adadelta": "deep_bench.reference.training.squares:AdaDelta",
    "adafactor": "deep_bench.reference.training.squares:Adafactor",
    "adagrad": "deep_bench.reference.training.squares:AdaGrad",
    "adam": "deep_bench.reference.training.adam:Adam",
    "adamax": "deep_bench.reference.training.adam:AdaMax",
    "adamw": "deep_bench.reference.training.adam:AdamW",
    "amsgrad": "deep_bench.reference.training.adam:AMSGrad",
    "lamb": "deep_bench.reference.training.layerwise:LAMB",
    "lars": "deep_bench.reference.training.layerwise:LARS",
    "lbfgs": "deep_bench.reference.training.lbfgs:LBFGS",
    "lion": "deep_bench.reference.training.layerwise:Lion",
    "momentum": "deep_bench.reference.training.sgd:Momentum",
    "muon": "deep_bench.reference.training.matrices:Muon",
    "nadam": "deep_bench.reference.training.adam:NAdam",
    "nesterov": "deep_bench.reference.training.sgd:Nesterov",
    "radam": "deep_bench.reference.training.adam:RAdam",
    "rmsprop": "deep_bench.reference.training.squares:RMSProp",
    "sgd": "deep_bench.reference.training.sgd:SGD",
    "shampoo": "deep_bench.reference.training.matrices:Shampoo",
    "tensorflow.adadelta": "deep_bench.adapters.tensorflow.optimizers:Adadelta",
    "tensorflow.adafactor": "deep_bench.adapters.tensorflow.optimizers:Adafactor",
    "tensorflow.adagrad": "deep_bench.adapters.tensorflow.optimizers:Adagrad",
    "tensorflow.adam": "deep_bench.adapters.tensorflow.optimizers:Adam",
    "tensorflow.adamax": "deep_bench.adapters.tensorflow.optimizers:Adamax",
    "tensorflow.adamw": "deep_bench.adapters.tensorflow.optimizers:AdamW",
    "tensorflow.ftrl": "deep_bench.adapters.tensorflow.optimizers:Ftrl",
    "tensorflow.lamb": "deep_bench.adapters.tensorflow.optimizers:Lamb",
    "tensorflow.lion": "deep_bench.adapters.tensorflow.optimizers:Lion",
    "tensorflow.muon": "deep_bench.adapters.tensorflow.optimizers:Muon",
    "tensorflow.nadam": "deep_bench.adapters.tensorflow.optimizers:Nadam",
    "tensorflow.rmsprop": "deep_bench.adapters.tensorflow.optimizers:RMSprop",
    "tensorflow.sgd": "deep_bench.adapters.tensorflow.optimizers:SGD",
    "torch.adadelta": "deep_bench.adapters.torch.optimizers:Adadelta",
    "torch.adafactor": "deep_bench.adapters.torch.optimizers:Adafactor",
    "torch.adagrad": "deep_bench.adapters.torch.optimizers:Adagrad",
    "torch.adam": "deep_bench.adapters.torch.optimizers:Adam",
    "torch.adamax": "deep_bench.adapters.torch.optimizers:Adamax",
    "torch.adamw": "deep_bench.adapters.torch.optimizers:AdamW",
    "torch.asgd": "deep_bench.adapters.torch.optimizers:ASGD",
    "torch.lbfgs": "deep_bench.adapters.torch.optimizers:LBFGS",
    "torch.muon": "deep_bench.adapters.torch.optimizers:Muon",
    "torch.nadam": "deep_bench.adapters.torch.optimizers:NAdam",
    "torch.radam": "deep_bench.adapters.torch.optimizers:RAdam",
    "torch.rmsprop": "deep_bench.adapters.torch.optimizers:RMSprop",
    "torch.rprop": "deep_bench.adapters.torch.optimizers:Rprop",
    "torch.sgd": "deep_bench.adapters.torch.optimizers:SGD",
}

optimizers = Registry(
    "optimizer",
    "deep_bench.optimizers",
    builtin=_OPTIMIZERS,
    requires={name: (name.partition(".")[0],) for name in _OPTIMIZERS if "." in name},
    extras={name: f"deep-bench[{name.partition('.')[0]}]" for name in _OPTIMIZERS if "." in name},
)

distributed_optimizers = Registry(
    "distributed optimizer",
    "deep_bench.distributed_optimizers",
    builtin={
        "allreduce": "deep_bench.distributed.schemes.averaged:AllReduce",
        "asynchronous": "deep_bench.distributed.schemes.server:Asynchronous",
        "averaging": "deep_bench.distributed.schemes.averaged:Averaging",
        "decentralised": "deep_bench.distributed.schemes.neighbours:Decentralised",
        "gossip": "deep_bench.distributed.schemes.neighbours:Gossip",
        "gradient-push": "deep_bench.distributed.schemes.neighbours:GradientPush",
        "hierarchical": "deep_bench.distributed.schemes.averaged:Hierarchical",
        "low-rank": "deep_bench.distributed.schemes.compressed:LowRank",
        "one-bit": "deep_bench.distributed.schemes.compressed:OneBit",
        "parameter-server": "deep_bench.distributed.schemes.server:ParameterServer",
        "post-local": "deep_bench.distributed.schemes.averaged:PostLocal",
        "quantised": "deep_bench.distributed.schemes.compressed:Quantised",
        "sharded-state": "deep_bench.distributed.schemes.sharded_state:ShardedState",
        "sparse": "deep_bench.distributed.schemes.compressed:Sparse",
        "stale-synchronous": "deep_bench.distributed.schemes.server:StaleSynchronous",
    },
)

datasets = Registry(
    "data set",
    "deep_bench.datasets",
    builtin={
        "cifar10": "deep_bench.training.originals:cifar10",
        "cifar100": "deep_bench.training.originals:cifar100",
        "co2": "deep_bench.training.originals:co2",
        "digits": "deep_bench.training.originals:digits",
        "fashion-mnist": "deep_bench.training.originals:fashion_mnist",
        "hamlet": "deep_bench.training.originals:hamlet",
        "imagenet": "deep_bench.training.originals:imagenet",
        "images": "deep_bench.training.originals:images",
        "mnist": "deep_bench.training.originals:mnist",
        "mnist5k": "deep_bench.training.originals:mnist5k",
        "movielens-100k": "deep_bench.training.originals:movielens100k",
        "synthetic": "deep_bench.training.sets:synthetic",
        "tokens": "deep_bench.training.sets:Tokens",
    },
)

samplers = Registry(
    "sampler",
    "deep_bench.samplers",
    builtin={
        "bucketed": "deep_bench.training.samplers:Bucketed",
        "infinite": "deep_bench.training.samplers:Infinite",
        "sequential": "deep_bench.training.samplers:Sequential",
        "shuffled": "deep_bench.training.samplers:Shuffled",
        "stratified": "deep_bench.training.samplers:Stratified",
        "weighted": "deep_bench.training.samplers:Weighted",
        "with-replacement": "deep_bench.training.samplers:WithReplacement",
    },
)

networks = Registry(
    "network",
    "deep_bench.networks",
    builtin={
        "digits-cnn": "deep_bench.training.networks:digits_cnn",
        "lenet": "deep_bench.training.networks:lenet",
        "mlp": "deep_bench.training.networks:mlp",
        "ncf": "deep_bench.training.networks:ncf",
        "recurrent": "deep_bench.training.networks:recurrent",
        "resnet": "deep_bench.training.networks:resnet",
        "resnet-cifar": "deep_bench.training.networks:resnet_cifar",
        "temporal-convolution": "deep_bench.training.networks:temporal_convolution",
        "transformer": "deep_bench.training.networks:transformer",
    },
)

suites = Registry(
    "suite",
    "deep_bench.suites",
    builtin={
        "convnet/1d": "deep_bench.operators.suites.convnet:one_dimensional",
        "convnet/3d": "deep_bench.operators.suites.convnet:three_dimensional",
        "convnet/depthwise": "deep_bench.operators.suites.convnet:depthwise",
        "convnet/dilated": "deep_bench.operators.suites.convnet:dilated",
        "convnet/grouped": "deep_bench.operators.suites.convnet:grouped",
        "convnet/mobilenet_v2": "deep_bench.operators.suites.convnet:mobilenet_v2",
        "convnet/resnet50": "deep_bench.operators.suites.convnet:resnet50",
        "convnet/unet": "deep_bench.operators.suites.convnet:unet",
        "deepbench/conv/device": "deep_bench.operators.suites.deepbench:conv_device",
        "deepbench/conv/server": "deep_bench.operators.suites.deepbench:conv_server",
        "deepbench/conv/training": "deep_bench.operators.suites.deepbench:conv_training",
        "deepbench/gemm/device": "deep_bench.operators.suites.deepbench:gemm_device",
        "deepbench/gemm/server": "deep_bench.operators.suites.deepbench:gemm_server",
        "deepbench/gemm/training": "deep_bench.operators.suites.deepbench:gemm_training",
        "deepbench/rnn/device": "deep_bench.operators.suites.deepbench:rnn_device",
        "deepbench/rnn/server": "deep_bench.operators.suites.deepbench:rnn_server",
        "deepbench/rnn/training": "deep_bench.operators.suites.deepbench:rnn_training",
        "deepbench/sparse_gemm/device": "deep_bench.operators.suites.deepbench:sparse_gemm_device",
        "deepbench/sparse_gemm/server": "deep_bench.operators.suites.deepbench:sparse_gemm_server",
        "transformer/attention": "deep_bench.operators.suites.transformer:attention",
        "transformer/cross_entropy": "deep_bench.operators.suites.transformer:cross_entropy",
        "transformer/embedding": "deep_bench.operators.suites.transformer:embedding",
        "transformer/gelu": "deep_bench.operators.suites.transformer:gelu",
        "transformer/layer_norm": "deep_bench.operators.suites.transformer:layer_norm",
        "transformer/linear": "deep_bench.operators.suites.transformer:linear",
        "transformer/rms_norm": "deep_bench.operators.suites.transformer:rms_norm",
        "transformer/rotary": "deep_bench.operators.suites.transformer:rotary",
        "transformer/softmax": "deep_bench.operators.suites.transformer:softmax",
        "transformer/swiglu": "deep_bench.operators.suites.transformer:swiglu",
    },
    made=True,
)

communicators = Registry(
    "communicator",
    "deep_bench.communicators",
    builtin={
        "counting": "deep_bench.distributed.communicators.counting:Counting",
        "local": "deep_bench.distributed.communicators.local:LocalCommunicator",
        "mpi": "deep_bench.adapters.mpi:MpiCommunicator",
        "torch": "deep_bench.adapters.torch.communicator:TorchCommunicator",
    },
    requires={"mpi": ("mpi4py",), "torch": ("torch",)},
    extras={name: f"deep-bench[{name}]" for name in ("mpi", "torch")},
)
