"""A carrier is asked for a quote: a pipeline written in Python alone. `faust -A topologies.shipping_quote worker`."""

from topologies.shipping_quote.app import app

__all__ = ["app"]
