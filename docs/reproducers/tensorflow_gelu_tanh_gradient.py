"""The slope of Gelu, by tanh or not, is 1 far to the right, and 0 far to the left."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

x = tf.constant([3e19, -3e19])
with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.nn.gelu(x, approximate=True)
demanded, came = [1.0, 0.0], tape.gradient(y, x).numpy().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
