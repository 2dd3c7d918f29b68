"""Framework adapters: the only place in deep_bench that imports a framework."""
