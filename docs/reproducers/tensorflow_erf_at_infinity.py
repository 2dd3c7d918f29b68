"""erf at infinity in float64, for as many elements as a vector register holds."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

demanded, came = np.ones(8), tf.math.erf(tf.constant(np.full(8, np.inf))).numpy()
print("demanded:", demanded[0], "came:", came[0])
raise SystemExit(int(not np.array_equal(demanded, came)))
