"""Log adapters: memory, local, kafka."""
