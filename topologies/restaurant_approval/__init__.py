"""A person approves: an order waits in an inbox until the restaurant decides."""
