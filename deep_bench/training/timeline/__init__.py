"""Bring your own loop: where the time of a step goes, in any framework."""

from deep_bench.training.timeline.live import Timeline, timeline
from deep_bench.training.timeline.result import TimelineResult, load

__all__ = ["Timeline", "TimelineResult", "load", "timeline"]
