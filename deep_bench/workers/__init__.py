"""Processes that systems under test live in: workers, fleets of them, and workers in other Python environments."""
