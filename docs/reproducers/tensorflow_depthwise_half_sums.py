"""A sum of 4,096 ones in float16, as the ordinary convolution has it."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

x, w = tf.ones((1, 64, 64, 1), tf.float16), tf.ones((64, 64, 1, 1), tf.float16)
demanded = float(tf.nn.conv2d(x, w, 1, "VALID")[0, 0, 0, 0])
came = float(tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID")[0, 0, 0, 0])
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
