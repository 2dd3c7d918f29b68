"""exp(x) - 1 for x = -1e-6, which float32 holds to 7 digits."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

demanded, came = float(np.expm1(np.float64(np.float32(-1e-6)))), float(tf.nn.elu(tf.constant([-1e-6]))[0])
print("demanded:", demanded, "came:", came)
raise SystemExit(int(abs(came / demanded - 1) > 1e-5))
