"""What others need to repeat a run: bundles, repetition, and badges."""
