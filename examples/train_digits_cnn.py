"""Train the small convolutional network that ships with deep_bench, and write it and its data set.

    python examples/train_digits_cnn.py --output deep_bench/data

Writes ``digits.h5`` (the UCI handwritten digits and their split) and ``digits-cnn.onnx``. The same versions of the
libraries on the same kind of machine give the same files. Needs torch, onnx, h5py and scikit-learn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import h5py
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from torch import Tensor, nn

SEED = 0
OPSET = 21
SOURCE = "https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits"
CITATION = (
    "E. Alpaydin and C. Kaynak (1998). Optical Recognition of Handwritten Digits. "
    "UCI Machine Learning Repository. https://doi.org/10.24432/C50P49"
)
LICENCE = "CC BY 4.0"


def write_digits(path: Path) -> None:
    """Write images, labels and the split: of each digit, a random fifth is for testing."""
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    rng = np.random.default_rng(SEED)
    test = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        members = np.flatnonzero(labels == digit)
        test[rng.choice(members, size=len(members) // 5, replace=False)] = True
    with h5py.File(path, "w") as file:
        file.attrs.update(
            title="Optical Recognition of Handwritten Digits, the 1,797 images of the original test set",
            source=SOURCE,
            citation=CITATION,
            licence=LICENCE,
            changes="images and labels as in scikit-learn's load_digits; the split is deep_bench's own",
            writer="examples/train_digits_cnn.py",
        )
        compact = {"compression": "gzip", "compression_opts": 9, "shuffle": True}
        stored = file.create_dataset("images", data=images, chunks=(len(images), 8, 8), **compact)
        stored.attrs["unit"] = "number of dark pixels in a 4 x 4 block, 0 to 16"
        file.create_dataset("labels", data=labels, chunks=labels.shape, **compact)
        for name, chosen in (("train", ~test), ("test", test)):
            indices = np.flatnonzero(chosen).astype(np.uint16)
            file.create_dataset(f"split/{name}", data=indices, chunks=indices.shape, **compact)


def read_digits(path: Path, part: str) -> tuple[Tensor, Tensor]:
    """Images scaled to [0, 1], shaped (n, 1, 8, 8), and labels of one part of the split."""
    with h5py.File(path) as file:
        indices = file[f"split/{part}"][:]
        images, labels = file["images"][:][indices], file["labels"][:][indices]
    return torch.from_numpy(images[:, None].astype(np.float32) / 16), torch.from_numpy(labels.astype(np.int64))


class DigitsNet(nn.Module):
    """A stem, a depthwise separable convolution, a residual block, a strided convolution and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(16)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
        self.depthwise_norm = nn.BatchNorm2d(16)
        self.pointwise = nn.Conv2d(16, 32, 1)
        self.first = nn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(32)
        self.second = nn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(32)
        self.strided = nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False)
        self.strided_norm = nn.BatchNorm2d(64)
        self.head = nn.Linear(64, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem_norm(self.stem(image)).relu()
        x = self.depthwise_norm(self.depthwise(x)).relu()
        x = nn.functional.max_pool2d(self.pointwise(x).relu(), 2)
        y = self.first_norm(self.first(x)).relu()
        x = (self.second_norm(self.second(y)) + x).relu()
        x = self.strided_norm(self.strided(x)).relu()
        return self.head(x.mean((2, 3)))


def train(images: Tensor, labels: Tensor, epochs: int) -> DigitsNet:
    """A network trained on images that are shifted by up to one pixel each way."""
    network = DigitsNet().train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.05)
    batch = 64
    steps = epochs * -(-len(images) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(images)).split(batch):
            down, right = torch.randint(-1, 2, (2,)).tolist()
            shifted = nn.functional.pad(images[chosen], (1, 1, 1, 1))[:, :, 1 + down : 9 + down, 1 + right : 9 + right]
            loss = nn.functional.cross_entropy(network(shifted), labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def _conv(name: str, source: str, target: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node("Conv", [source, f"{name}.weight"], [target], name, **attributes)


def _norm(name: str, source: str, target: str) -> onnx.NodeProto:
    inputs = [source, *(f"{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var"))]
    return helper.make_node("BatchNormalization", inputs, [target], name, epsilon=1e-5)


def nodes() -> list[onnx.NodeProto]:
    """The layers of `DigitsNet.forward` as ONNX nodes; parameters keep the names of the state dict."""
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}

    def relu(name: str, source: str, target: str) -> onnx.NodeProto:
        return helper.make_node("Relu", [source], [target], name)

    return [
        _conv("stem", "image", "stem_out", **same),
        _norm("stem_norm", "stem_out", "stem_normed"),
        relu("stem_relu", "stem_normed", "stem_active"),
        _conv("depthwise", "stem_active", "depthwise_out", group=16, **same),
        _norm("depthwise_norm", "depthwise_out", "depthwise_normed"),
        relu("depthwise_relu", "depthwise_normed", "depthwise_active"),
        helper.make_node(
            "Conv",
            ["depthwise_active", "pointwise.weight", "pointwise.bias"],
            ["pointwise_out"],
            "pointwise",
            kernel_shape=[1, 1],
        ),
        relu("pointwise_relu", "pointwise_out", "pointwise_active"),
        helper.make_node("MaxPool", ["pointwise_active"], ["pooled"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        _conv("first", "pooled", "first_out", **same),
        _norm("first_norm", "first_out", "first_normed"),
        relu("first_relu", "first_normed", "first_active"),
        _conv("second", "first_active", "second_out", **same),
        _norm("second_norm", "second_out", "second_normed"),
        helper.make_node("Add", ["second_normed", "pooled"], ["residual_sum"], "residual"),
        relu("residual_relu", "residual_sum", "residual_active"),
        _conv("strided", "residual_active", "strided_out", strides=[2, 2], **same),
        _norm("strided_norm", "strided_out", "strided_normed"),
        relu("strided_relu", "strided_normed", "strided_active"),
        helper.make_node("GlobalAveragePool", ["strided_active"], ["averaged"], "average"),
        helper.make_node("Flatten", ["averaged"], ["features"], "flatten", axis=1),
        helper.make_node("Gemm", ["features", "head.weight", "head.bias"], ["logits"], "head", transB=1),
    ]


def to_onnx(network: DigitsNet, accuracy: float) -> onnx.ModelProto:
    """The trained network as an ONNX model with its provenance in the metadata."""
    graph_nodes = nodes()
    state = {n: p.numpy() for n, p in network.state_dict().items() if not n.endswith("num_batches_tracked")}
    graph = helper.make_graph(
        graph_nodes,
        "digits-cnn",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(array, name) for name, array in state.items()],
        doc_string="Classifies 8 x 8 images of handwritten digits, scaled to [0, 1].",
    )
    model = helper.make_model(
        graph, producer_name="deep_bench", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10
    )
    provenance = {
        "training_script": "examples/train_digits_cnn.py",
        "seed": str(SEED),
        "test_accuracy": f"{accuracy:.4f}",
        "data": "digits.h5",
        "data_citation": CITATION,
        "data_licence": LICENCE,
        "licence": "BSD-3-Clause",
    }
    helper.set_model_props(model, provenance)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Read the command line, write both files and print what they hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("deep_bench/data"), help="folder for both files")
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    data = arguments.output / "digits.h5"
    write_digits(data)
    network = train(*read_digits(data, "train"), arguments.epochs)
    images, labels = read_digits(data, "test")
    with torch.inference_mode():
        accuracy = (network(images).argmax(1) == labels).float().mean().item()
    onnx.save(to_onnx(network, accuracy), arguments.output / "digits-cnn.onnx")
    print(f"{sum(p.numel() for p in network.parameters())} parameters, test accuracy {accuracy:.2%} on {len(labels)} images")


if __name__ == "__main__":
    main()
