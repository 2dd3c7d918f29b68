"""Adding a bias to a depthwise convolution with explicit pads, in a graph."""

import os

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}
import tensorflow as tf

PADS = [[0, 0], [1, 1], [1, 1], [0, 0]]
print("demanded: [5, 5], came:", flush=True)
network = tf.function(lambda x, w: tf.nn.bias_add(tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], PADS), tf.ones(2)))
print(network(tf.ones((1, 4, 4, 2)), tf.ones((3, 3, 2, 1)))[0, 0, 0].numpy().tolist())
