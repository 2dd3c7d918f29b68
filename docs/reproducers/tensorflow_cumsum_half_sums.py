"""The last running sum of 4,096 ones in bfloat16, as their plain sum has it."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

x = tf.ones(4096, tf.bfloat16)
demanded, came = float(tf.reduce_sum(x)), float(tf.cumsum(x)[-1])
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
