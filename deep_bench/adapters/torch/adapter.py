"""``TorchAdapter``: networks as PyTorch modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from deep_bench.adapters.lowering import Site, lower
from deep_bench.adapters.torch.arrays import TYPES, can_be_shared, is_foreign, to_array, to_tensor
from deep_bench.adapters.torch.executor import GUARD_PAYS_FROM, TorchExecutor
from deep_bench.adapters.torch.fallback import fallback, kernel_code
from deep_bench.adapters.torch.functions import TorchFunctions
from deep_bench.adapters.torch.gradients import watch_code, with_masks
from deep_bench.adapters.torch.module import PlanModule
from deep_bench.adapters.torch.operators import build
from deep_bench.adapters.torch.precision import PRECISIONS, Precision
from deep_bench.adapters.wrapping import thread_count
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Adapter, Mode
from deep_bench.graph import Network
from deep_bench.operators.placed import Placed


class TorchAdapter(Adapter[torch.Tensor]):
    """PyTorch, eager or compiled, on CPU or CUDA.

    Float32 products are computed in float32 everywhere: TF32 and reduced accumulation are switched off for the process.

    Args:
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:<index>"``.
        compile: A backend of ``torch.compile`` (``"inductor"``); ``None`` runs eagerly.
        dtype: ``"float64"``, ``"float16"`` or ``"bfloat16"`` runs the whole network in that precision: parameters, inputs
            and outputs; ``None`` in its own.
        threads: For ``torch.set_num_threads``, which holds for the whole process; ``None`` leaves it.

    Raises:
        InvalidArgument: An option that torch does not know.
        Unsupported: A CUDA device where there is none.

    Example:
        >>> import deep_bench as db
        >>> executor = TorchAdapter().prepare(db.load("digits-cnn"))
        >>> print(executor.module.code.splitlines()[0])
        def forward(self, v_image):
    """

    name: ClassVar[str] = "torch"
    differentiates: ClassVar[bool] = True
    runs_kernels: ClassVar[bool] = True

    def __init__(
        self,
        *,
        device: str = "cpu",
        compile: str | None = None,  # noqa: A002 (the option's name on the command line)
        dtype: str | None = None,
        threads: int | None = None,
    ) -> None:
        self.target = _device(device)
        self._backend = _backend(compile)
        if dtype is not None and dtype not in PRECISIONS:
            raise InvalidArgument(f"dtype={dtype!r}", f"one of {', '.join(PRECISIONS)}, or none for the network's own")
        self._precision = Precision(None if dtype is None else PRECISIONS[dtype])
        self._dtype = dtype
        thread_count(threads)
        if threads is not None:
            torch.set_num_threads(threads)
        # keep float32 products in float32, and sums of 16-bit products in float32
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False

    def prepare(self, network: Network, *, mode: Mode = "inference", outputs: Sequence[str] | None = None) -> TorchExecutor:
        """See `Adapter.prepare`.

        Raises:
            InvalidArgument: An unknown mode.
            UnsupportedOperator: A node cannot run here.
        """
        if mode not in ("inference", "train"):
            raise InvalidArgument(f"mode={mode!r}", "'inference' or 'train'")
        read: set[str] = set()

        def native(site: Site) -> Callable[..., Any]:
            local_site = self._precision.site(site, read, self._elsewhere)
            return watch_code(local_site, build(local_site)) if mode == "train" else build(local_site)

        lowered = lower(
            network,
            native=native,
            fallback=lambda site, function: fallback(site, function, self.target, self._precision.array),
            mode=mode,
            outputs=outputs,
            kernel=lambda site, kernel: self._kernel(self._precision.site(site, read, self._elsewhere), kernel),
        )
        module = PlanModule(
            with_masks(lowered.plan) if mode == "train" else lowered.plan,
            trains=mode == "train",
            convert=self._precision.array,
            named=True,
            target=self._elsewhere,
        )
        module.to(self.target)
        run: Callable[..., Any] = module.forward
        if self._backend is not None:
            run = torch.compile(run, backend=self._backend)
        dtypes = {s.name: TYPES.get(self._precision.of(s.dtype) or s.dtype) for s in network.inputs}
        return TorchExecutor(
            module,
            run,
            device=self,
            target=self.target,
            inputs=network.inputs,
            forms=lowered.forms,
            mode=mode,
            dtypes=dtypes,
            baked=frozenset(read),
            guarded=self._backend is not None or module.steps >= GUARD_PAYS_FROM,
            network=network,
            convert=self._precision.array,
        )

    def _kernel(self, site: Site, kernel: Placed) -> tuple[Callable[..., Any], str]:
        """A kernel of the user's as native code; what it is set up with is part of the code."""
        for index in range(len(site.inputs)) if kernel.sets_up else ():
            site.constant(index)
        home = kernel.device.target if isinstance(kernel.device, TorchAdapter) else None
        alike = home is not None and (home.type, home.index or 0) == (self.target.type, self.target.index or 0)
        return kernel_code(site, kernel, self.target, direct=alike)

    @property
    def backend(self) -> str | None:
        """The backend of ``torch.compile``, if what runs here is compiled."""
        return self._backend

    @property
    def _elsewhere(self) -> torch.device | None:
        """The device, unless that is the CPU."""
        return None if self.target.type == "cpu" else self.target

    @property
    def xp(self) -> TorchFunctions:
        """See `Device.xp`."""
        return TorchFunctions(self.target)

    def from_numpy(self, array: np.ndarray) -> Any:
        """See `Device.from_numpy`; arrays of types that torch lacks (strings, float4) stay NumPy arrays."""
        array = np.asarray(array)
        return array.copy() if is_foreign(array.dtype) else to_tensor(array, self.target)

    def adopt(self, array: np.ndarray) -> Any:
        """See `Device.adopt`; on a CPU without a copy."""
        array = np.asarray(array)
        return torch.from_numpy(array) if self.target.type == "cpu" and can_be_shared(array) else self.from_numpy(array)

    def to_numpy(self, array: torch.Tensor) -> np.ndarray:
        """See `Device.to_numpy`; always a copy."""
        return to_array(array) if isinstance(array, torch.Tensor) else np.array(array)

    def synchronize(self) -> None:
        """See `Device.synchronize`."""
        if self.target.type == "cuda":
            torch.cuda.synchronize(self.target)

    def describe(self) -> Mapping[str, str]:
        """See `Adapter.describe`."""
        facts = {
            "version": torch.__version__,
            "device": _device_name(self.target),
            "threads": str(torch.get_num_threads()),
            "precision": f"{self._dtype or 'as the network'}; float32 products in full (no TF32)",
            "compile": self._backend or "eager",
            "instruction set": torch.backends.cpu.get_cpu_capability(),
            "oneDNN": str(torch.backends.mkldnn.is_available()),
        }
        if self.target.type == "cuda":
            facts["cuda"] = str(torch.version.cuda)
            facts["cudnn"] = f"{torch.backends.cudnn.version()}; deterministic: {torch.backends.cudnn.deterministic}"
        return facts


def _device(name: str) -> torch.device:
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not (kind == "cuda" and index.isdecimal())):
        raise InvalidArgument(f"device={name!r}", "'cpu', 'cuda' or 'cuda:<index>'")
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        reason = "this build of torch has no CUDA" if torch.version.cuda is None else "no usable NVIDIA device or driver"
        raise Unsupported(f"device={name!r}: {reason}", "a CUDA device", "use device=cpu, or install a CUDA build of torch")
    if index and int(index) >= torch.cuda.device_count():
        raise InvalidArgument(f"device={name!r}", f"an index below {torch.cuda.device_count()}")
    return torch.device(name)


def _backend(name: str | None) -> str | None:
    backends = torch.compiler.list_backends(exclude_tags=()) if name is not None else ()
    if name is not None and name not in backends:
        raise InvalidArgument(f"compile={name!r}", f"one of {', '.join(backends)}")
    return name


def _device_name(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else f"{device}: {torch.cuda.get_device_name(device)}"
