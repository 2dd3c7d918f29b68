"""The adapter for TensorFlow."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, get_args

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site, lower
from deep_bench.adapters.tensorflow.executor import TensorFlowExecutor
from deep_bench.adapters.tensorflow.fallback import decoded, fallback, kernel_code
from deep_bench.adapters.tensorflow.functions import TensorFlowFunctions
from deep_bench.adapters.tensorflow.graph import LateRefusal
from deep_bench.adapters.tensorflow.operators import native
from deep_bench.adapters.tensorflow.precision import in_precision
from deep_bench.adapters.wrapping import thread_count
from deep_bench.errors import InvalidArgument, Unsupported, UnsupportedOperator
from deep_bench.framework import Adapter, Mode
from deep_bench.graph import OPSET, Network
from deep_bench.operators.placed import Placed

_PRECISIONS = ("float16", "bfloat16", "float32", "float64")


class TensorFlowAdapter(Adapter[Any]):
    """TensorFlow: a network becomes one graph, in the layout that its kernels want.

    Args:
        device: ``"cpu"``, ``"gpu"`` or ``"gpu:1"``.
        jit: ``"xla"`` to have XLA compile the graph.
        eager: Run node by node, without a graph.
        dtype: ``"float64"``, ``"float32"``, ``"float16"`` or ``"bfloat16"`` runs networks in that precision instead of their
            own; inputs are fed as the network declares them and converted, outputs come in that precision.
        threads: The number of threads within an operator, and of operators at once; set before TensorFlow starts.

    Raises:
        InvalidArgument: An unknown option, or a number of threads after TensorFlow has started.
        Unsupported: There is no such device.

    Example:
        >>> import deep_bench as db
        >>> executor = TensorFlowAdapter().prepare(db.load("digits-cnn"))
        >>> [o.type for o in executor.graph.get_operations()].count("Transpose")
        0
    """

    name: ClassVar[str] = "tensorflow"
    differentiates: ClassVar[bool] = True
    runs_kernels: ClassVar[bool] = True

    def __init__(
        self,
        *,
        device: str = "cpu",
        jit: str | None = None,
        eager: bool = False,
        dtype: str | None = None,
        threads: int | None = None,
    ) -> None:
        if jit not in (None, "xla"):
            raise InvalidArgument(f"jit={jit!r}", "'xla'", "leave it out for TensorFlow's own executor")
        if jit and eager:
            raise InvalidArgument("jit='xla' with eager=True", "one of the two", "an eager network is not compiled")
        if dtype is not None and dtype not in _PRECISIONS:
            raise InvalidArgument(f"dtype={dtype!r}", f"one of {', '.join(_PRECISIONS)}")
        thread_count(threads)
        if threads is not None:
            try:
                tf.config.threading.set_intra_op_parallelism_threads(threads)
                tf.config.threading.set_inter_op_parallelism_threads(threads)
            except RuntimeError as error:
                raise InvalidArgument(
                    f"threads={threads} after TensorFlow has started in this process",
                    "the number before anything is computed",
                    "use a process of its own for each number of threads",
                ) from error
        self._place = _place(device)
        self._jit, self._eager, self._dtype = (
            jit == "xla",
            eager,
            None if dtype is None else np.dtype(tf.as_dtype(dtype).as_numpy_dtype),
        )
        tf.config.experimental.enable_tensor_float_32_execution(False)

    def prepare(
        self, network: Network, *, mode: Mode = "inference", outputs: Sequence[str] | None = None
    ) -> TensorFlowExecutor:
        """Build and trace one graph for a network.

        Raises:
            UnsupportedOperator: A node cannot run here.
        """
        if mode not in get_args(Mode):
            raise InvalidArgument(f"mode {mode!r}", f"one of {', '.join(get_args(Mode))}")
        whole = network if self._dtype is None else in_precision(network, self._dtype)
        refused: dict[str, str] = {}
        while True:  # what turns out to be impossible only when it is traced goes to the fallback
            try:
                return self._traced(network, whole, mode, outputs, refused)
            except LateRefusal as refusal:
                if refusal.site in refused:
                    raise UnsupportedOperator(refusal.site, refusal.operator, OPSET, refusal.reason) from refusal
                refused[refusal.site] = refusal.reason

    def _traced(
        self, network: Network, whole: Network, mode: Mode, outputs: Sequence[str] | None, refused: Mapping[str, str]
    ) -> TensorFlowExecutor:
        def code(site: Site) -> Callable[..., Any]:
            if site.name in refused:
                raise NotNative(refused[site.name])
            return native(site)

        def by_kernel(site: Site, kernel: Placed) -> tuple[Callable[..., Any], str]:
            alike = isinstance(kernel.device, TensorFlowAdapter) and kernel.device._place == self._place
            return kernel_code(site, kernel, direct=alike, jit=self._jit)

        host = None if self._jit else fallback
        lowered = lower(whole, native=code, fallback=host, mode=mode, outputs=outputs, kernel=by_kernel)
        return TensorFlowExecutor(
            self,
            lowered,
            network,
            tuple(outputs) if outputs is not None else tuple(o.name for o in network.outputs),
            mode=mode,
            jit=self._jit,
            eager=self._eager,
            place=self._place,
            dtype=self._dtype,
        )

    @property
    def place(self) -> str:
        """TensorFlow's name of the device."""
        return self._place

    @property
    def jit(self) -> bool:
        """Whether XLA compiles what runs here."""
        return self._jit

    @property
    def calls_at_once(self) -> int | None:
        """How many kernels of the user's can be under way at once: graphs call them by threads that all graphs share."""
        threads: int = tf.config.threading.get_inter_op_parallelism_threads()
        return None if self._eager else threads or _threads_of_environment() or _cpus()

    def describe(self) -> Mapping[str, str]:
        """Version, device, threads, precision, compiler and libraries in effect."""
        intra, inter = (
            tf.config.threading.get_intra_op_parallelism_threads(),
            tf.config.threading.get_inter_op_parallelism_threads(),
        )
        return {
            "version": tf.__version__,
            "device": self._place,
            "threads": "default" if not intra and not inter else f"{intra or 'default'} × {inter or 'default'}",
            "precision": "the network's own, TF32 off" if self._dtype is None else f"{self._dtype}, TF32 off",
            "subnormal numbers": "flushed to zero by TensorFlow's kernels; there is no option",
            "execution": "eager" if self._eager else "graph compiled by XLA" if self._jit else "graph",
            "oneDNN": "on" if _onednn() else "off",
        }

    @property
    def xp(self) -> TensorFlowFunctions:
        """See `Device.xp`."""
        return TensorFlowFunctions(self._place)

    def from_numpy(self, array: np.ndarray) -> Any:
        """A tensor on this device with the contents of ``array``.

        Raises:
            Unsupported: TensorFlow has no such element type.
        """
        with tf.device(self._place):
            return to_tensor(array)

    def to_numpy(self, array: Any) -> np.ndarray:
        """The contents of a tensor, copied."""
        return to_array(array)

    def synchronize(self) -> None:
        """Return when all work given to the device is done; on a CPU, a call has ended when it returns."""
        if "GPU" in self._place:
            tf.test.experimental.sync_devices()


def to_tensor(array: np.ndarray) -> Any:
    """A tensor with the contents of an array.

    Raises:
        Unsupported: TensorFlow has no such element type.
    """
    try:
        return tf.constant(array, tf.string if array.dtype == object else None)
    except (TypeError, ValueError) as error:
        raise Unsupported(f"TensorFlow has no tensors of {array.dtype}", advice="convert it first") from error


def to_array(tensor: Any) -> np.ndarray:
    """The contents of a tensor, copied; text as strings."""
    return decoded(tensor.numpy()) if tensor.dtype == tf.string else np.array(tensor.numpy())


def _place(device: str) -> str:
    kind, _, number = device.lower().partition(":")
    kind = {"cuda": "gpu"}.get(kind, kind)
    if kind not in ("cpu", "gpu") or (number and not number.isdigit()):
        raise InvalidArgument(f"device={device!r}", "'cpu', 'gpu' or 'gpu:1'")
    available = tf.config.list_physical_devices(kind.upper())
    if int(number or 0) >= len(available):
        raise Unsupported(
            f"TensorFlow sees {len(available)} devices of kind {kind!r} here", f"device {device!r}", "device='cpu'"
        )
    return f"{kind.upper()}:{int(number or 0)}"


def _threads_of_environment() -> int:
    """The threads that the environment asks TensorFlow for; 0 where it does not."""
    text = os.environ.get("TF_NUM_INTEROP_THREADS", "")
    return max(int(text), 0) if text.lstrip("-").isdecimal() else 0


def _cpus() -> int:
    """The CPUs that this process may use, for each of which TensorFlow has a thread unless it is told otherwise."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _onednn() -> bool:
    """Whether oneDNN's kernels are in use: by default on x86, unless TensorFlow's own variable says otherwise."""
    setting = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower()
    return platform.machine().lower() in ("x86_64", "amd64") and setting not in ("0", "false")
