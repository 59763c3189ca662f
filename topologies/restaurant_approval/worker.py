"""The Faust app of restaurant-approval: `faust -A topologies.restaurant_approval worker` serves its inbox over HTTP."""

from __future__ import annotations

from pathlib import Path

from tpf_streams import App

app = App("restaurant-approval", pipeline=Path(__file__).with_name("pipeline.yaml"))
