"""deep_bench times and checks any piece of deep learning against slow references that a person can read.

Importing this package loads no framework; names below are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy
from deep_bench.registry import Registry

if TYPE_CHECKING:
    from deep_bench import distributed as distributed
    from deep_bench import network as network
    from deep_bench import operators as operators
    from deep_bench import results as results
    from deep_bench import training as training
    from deep_bench.graph import Network as Network
    from deep_bench.graph import load as load
    from deep_bench.network.result import Result as Result
    from deep_bench.network.run import run as run
    from deep_bench.operators.case import Case as Case
    from deep_bench.operators.operator import Operator as Operator
    from deep_bench.tensor import TensorSpec as TensorSpec
    from deep_bench.training.timeline.live import timeline as timeline
    from deep_bench.training.trainer import Trainer as Trainer

__version__ = "0.1.0"

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

_RULES, _TORCH, _KERAS = "deep_bench.reference.training", "deep_bench.adapters.torch", "deep_bench.adapters.tensorflow"

_OPTIMIZERS = {
    "accelegrad": f"{_RULES}.accelegrad:AcceleGrad",
    "adadelta": f"{_RULES}.squares:AdaDelta",
    "adafactor": f"{_RULES}.adafactor:Adafactor",
    "adagrad": f"{_RULES}.squares:AdaGrad",
    "adam": f"{_RULES}.adam:Adam",
    "adamax": f"{_RULES}.adam_relatives:AdaMax",
    "adamw": f"{_RULES}.adam:AdamW",
    "amsgrad": f"{_RULES}.adam:AMSGrad",
    "lamb": f"{_RULES}.layerwise:LAMB",
    "lars": f"{_RULES}.layerwise:LARS",
    "lbfgs": f"{_RULES}.lbfgs:LBFGS",
    "lion": f"{_RULES}.layerwise:Lion",
    "momentum": f"{_RULES}.sgd:Momentum",
    "muon": f"{_RULES}.muon:Muon",
    "nadam": f"{_RULES}.adam_relatives:NAdam",
    "nesterov": f"{_RULES}.sgd:Nesterov",
    "radam": f"{_RULES}.adam_relatives:RAdam",
    "rmsprop": f"{_RULES}.squares:RMSProp",
    "sgd": f"{_RULES}.sgd:SGD",
    "shampoo": f"{_RULES}.shampoo:Shampoo",
    "tensorflow.adadelta": f"{_KERAS}.optimizers:Adadelta",
    "tensorflow.adafactor": f"{_KERAS}.optimizers:Adafactor",
    "tensorflow.adagrad": f"{_KERAS}.optimizers:Adagrad",
    "tensorflow.adam": f"{_KERAS}.optimizers:Adam",
    "tensorflow.adamax": f"{_KERAS}.optimizers:Adamax",
    "tensorflow.adamw": f"{_KERAS}.optimizers:AdamW",
    "tensorflow.ftrl": f"{_KERAS}.optimizers:Ftrl",
    "tensorflow.lamb": f"{_KERAS}.optimizers:Lamb",
    "tensorflow.lion": f"{_KERAS}.optimizers:Lion",
    "tensorflow.muon": f"{_KERAS}.optimizers:Muon",
    "tensorflow.nadam": f"{_KERAS}.optimizers:Nadam",
    "tensorflow.rmsprop": f"{_KERAS}.optimizers:RMSprop",
    "tensorflow.sgd": f"{_KERAS}.optimizers:SGD",
    "torch.adadelta": f"{_TORCH}.optimizers:Adadelta",
    "torch.adafactor": f"{_TORCH}.optimizers:Adafactor",
    "torch.adagrad": f"{_TORCH}.optimizers:Adagrad",
    "torch.adam": f"{_TORCH}.optimizers:Adam",
    "torch.adamax": f"{_TORCH}.optimizers:Adamax",
    "torch.adamw": f"{_TORCH}.optimizers:AdamW",
    "torch.asgd": f"{_TORCH}.optimizers:ASGD",
    "torch.lbfgs": f"{_TORCH}.optimizers:LBFGS",
    "torch.muon": f"{_TORCH}.optimizers:Muon",
    "torch.nadam": f"{_TORCH}.optimizers:NAdam",
    "torch.radam": f"{_TORCH}.optimizers:RAdam",
    "torch.rmsprop": f"{_TORCH}.optimizers:RMSprop",
    "torch.rprop": f"{_TORCH}.optimizers:Rprop",
    "torch.sgd": f"{_TORCH}.optimizers:SGD",
}

optimizers = Registry(
    "optimizer",
    "deep_bench.optimizers",
    builtin=_OPTIMIZERS,
    requires={name: (name.partition(".")[0],) for name in _OPTIMIZERS if "." in name},
    extras={name: f"deep-bench[{name.partition('.')[0]}]" for name in _OPTIMIZERS if "." in name},
)

_SCHEMES = "deep_bench.distributed.schemes"

distributed_optimizers = Registry(
    "distributed optimizer",
    "deep_bench.distributed_optimizers",
    builtin={
        "allreduce": f"{_SCHEMES}.allreduce:AllReduce",
        "asynchronous": f"{_SCHEMES}.asynchronous:Asynchronous",
        "averaging": f"{_SCHEMES}.averaging:Averaging",
        "decentralised": f"{_SCHEMES}.decentralised:Decentralised",
        "gossip": f"{_SCHEMES}.gossip:Gossip",
        "gradient-push": f"{_SCHEMES}.push:GradientPush",
        "hierarchical": f"{_SCHEMES}.hierarchical:Hierarchical",
        "low-rank": f"{_SCHEMES}.low_rank:LowRank",
        "one-bit": f"{_SCHEMES}.one_bit:OneBit",
        "parameter-server": f"{_SCHEMES}.parameter_server:ParameterServer",
        "post-local": f"{_SCHEMES}.post_local:PostLocal",
        "quantised": f"{_SCHEMES}.quantised:Quantised",
        "sharded-state": f"{_SCHEMES}.sharded_state:ShardedState",
        "sparse": f"{_SCHEMES}.sparse:Sparse",
        "stale-synchronous": f"{_SCHEMES}.stale:StaleSynchronous",
    },
)

_SETS = "deep_bench.training.sets"

datasets = Registry(
    "data set",
    "deep_bench.datasets",
    builtin={
        "cifar10": f"{_SETS}.originals:cifar10",
        "cifar100": f"{_SETS}.originals:cifar100",
        "co2": f"{_SETS}.packed:co2",
        "digits": f"{_SETS}.digits:digits",
        "fashion-mnist": f"{_SETS}.originals:fashion_mnist",
        "hamlet": "deep_bench.training.workload.hamlet:hamlet",
        "imagenet": f"{_SETS}.imagenet:imagenet",
        "images": f"{_SETS}.images:images",
        "mnist": f"{_SETS}.originals:mnist",
        "mnist5k": f"{_SETS}.packed:mnist5k",
        "movielens-100k": f"{_SETS}.packed:movielens100k",
        "synthetic": f"{_SETS}.synthetic:synthetic",
        "tokens": f"{_SETS}.tokens:Tokens",
    },
)

_SAMPLERS = "deep_bench.training.samplers"

samplers = Registry(
    "sampler",
    "deep_bench.samplers",
    builtin={
        "bucketed": f"{_SAMPLERS}:Bucketed",
        "infinite": f"{_SAMPLERS}:Infinite",
        "sequential": f"{_SAMPLERS}:Sequential",
        "shuffled": f"{_SAMPLERS}:Shuffled",
        "stratified": f"{_SAMPLERS}:Stratified",
        "weighted": f"{_SAMPLERS}:Weighted",
        "with-replacement": f"{_SAMPLERS}:WithReplacement",
    },
)

_NETWORKS = "deep_bench.training.networks"

networks = Registry(
    "network",
    "deep_bench.networks",
    builtin={
        "digits-cnn": f"{_NETWORKS}:digits_cnn",
        "lenet": f"{_NETWORKS}:lenet",
        "mlp": f"{_NETWORKS}:mlp",
        "ncf": f"{_NETWORKS}:ncf",
        "recurrent": f"{_NETWORKS}:recurrent",
        "resnet": f"{_NETWORKS}:resnet",
        "resnet-cifar": f"{_NETWORKS}:resnet_cifar",
        "temporal-convolution": f"{_NETWORKS}:temporal_convolution",
        "transformer": f"{_NETWORKS}:transformer",
    },
)

_SUITES = "deep_bench.operators.suites"

suites = Registry(
    "suite",
    "deep_bench.suites",
    builtin={
        "convnet/1d": f"{_SUITES}.convnet:one_dimensional",
        "convnet/3d": f"{_SUITES}.convnet:three_dimensional",
        "convnet/depthwise": f"{_SUITES}.convnet:depthwise",
        "convnet/dilated": f"{_SUITES}.convnet:dilated",
        "convnet/grouped": f"{_SUITES}.convnet:grouped",
        "convnet/mobilenet_v2": f"{_SUITES}.convnet:mobilenet_v2",
        "convnet/resnet50": f"{_SUITES}.convnet:resnet50",
        "convnet/unet": f"{_SUITES}.convnet:unet",
        "deepbench/conv/device": f"{_SUITES}.deepbench:conv_device",
        "deepbench/conv/server": f"{_SUITES}.deepbench:conv_server",
        "deepbench/conv/training": f"{_SUITES}.deepbench:conv_training",
        "deepbench/gemm/device": f"{_SUITES}.deepbench:gemm_device",
        "deepbench/gemm/server": f"{_SUITES}.deepbench:gemm_server",
        "deepbench/gemm/training": f"{_SUITES}.deepbench:gemm_training",
        "deepbench/rnn/device": f"{_SUITES}.deepbench:rnn_device",
        "deepbench/rnn/server": f"{_SUITES}.deepbench:rnn_server",
        "deepbench/rnn/training": f"{_SUITES}.deepbench:rnn_training",
        "deepbench/sparse_gemm/device": f"{_SUITES}.deepbench:sparse_gemm_device",
        "deepbench/sparse_gemm/server": f"{_SUITES}.deepbench:sparse_gemm_server",
        "transformer/attention": f"{_SUITES}.transformer:attention",
        "transformer/cross_entropy": f"{_SUITES}.transformer:cross_entropy",
        "transformer/embedding": f"{_SUITES}.transformer:embedding",
        "transformer/gelu": f"{_SUITES}.transformer:gelu",
        "transformer/layer_norm": f"{_SUITES}.transformer:layer_norm",
        "transformer/linear": f"{_SUITES}.transformer:linear",
        "transformer/rms_norm": f"{_SUITES}.transformer:rms_norm",
        "transformer/rotary": f"{_SUITES}.transformer:rotary",
        "transformer/softmax": f"{_SUITES}.transformer:softmax",
        "transformer/swiglu": f"{_SUITES}.transformer:swiglu",
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

_LAZY = {
    "Case": "deep_bench.operators.case",
    "Network": "deep_bench.graph",
    "Operator": "deep_bench.operators.operator",
    "Result": "deep_bench.network.result",
    "TensorSpec": "deep_bench.tensor",
    "Trainer": "deep_bench.training.trainer",
    "load": "deep_bench.graph",
    "run": "deep_bench.network.run",
    "timeline": "deep_bench.training.timeline.live",
}

__all__ = [
    "Case",
    "Network",
    "Operator",
    "Result",
    "TensorSpec",
    "Trainer",
    "__version__",
    "communicators",
    "datasets",
    "distributed_optimizers",
    "frameworks",
    "load",
    "run",
    "samplers",
    "suites",
    "timeline",
]


_LAYERS = ("distributed", "network", "operators", "results", "training")

__getattr__, __dir__ = lazy(__name__, _LAZY, _LAYERS)
