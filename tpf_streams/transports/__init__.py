"""How requests of await steps leave: one adapter per transport type, all of one shape (tests/contract)."""
