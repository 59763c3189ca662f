"""The Faust app of a pipeline: whoever knows Faust finds agents, pages, timers, commands and sensors as they are."""

from tpf_streams.app.application import App
from tpf_streams.app.topics import AwaitTopics
from tpf_streams.app.views import RowTable

__all__ = ["App", "AwaitTopics", "RowTable"]
