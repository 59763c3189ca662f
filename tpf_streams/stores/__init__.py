"""State stores: memory and RocksDB."""
