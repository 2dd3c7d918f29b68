"""Maxima over windows that hold a NaN, beside the maximum over all of the tensor."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

x = tf.constant([[[np.nan], [1.0]], [[1.0], [1.0]]])
demanded = tf.reduce_max(x).numpy()
came = tf.nn.max_pool2d(x[None], 2, 2, "VALID").numpy().item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.isnan(came)))
