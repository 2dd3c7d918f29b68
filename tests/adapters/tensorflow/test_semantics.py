"""Where ONNX and TensorFlow differ and the standard's cases do not look."""

import numpy as np
import pytest

from tests_tensorflow import one_node

run = one_node.run
nan, inf = np.nan, np.inf


def f32(*values):
    return np.array(values, np.float32)
