"""jax: functions of its arrays as operators."""
