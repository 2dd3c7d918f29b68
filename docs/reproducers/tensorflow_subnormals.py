"""2e-40 is a subnormal number of float32."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

demanded = 2e-40
came = float(tf.add(tf.constant([1e-40]), tf.constant([1e-40]))[0])
print("demanded:", demanded, "came:", came)
raise SystemExit(int(abs(came - demanded) > 1e-42))
