"""The softmax of a row that holds a NaN, beside the logarithm of it."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

x = tf.constant([[1.0, np.nan]])
demanded = tf.exp(tf.nn.log_softmax(x)).numpy()
came = tf.nn.softmax(x).numpy()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.isnan(came).all()))
