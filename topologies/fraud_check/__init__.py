"""One decision by a partner: an order waits for a fraud check and is released, or not."""
