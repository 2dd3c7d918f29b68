"""How a number is taken and kept: timing, workers, statistics, environment, record.

Nothing is imported here: a worker process needs the timer only, and should load neither scipy nor pydantic for it.
"""
