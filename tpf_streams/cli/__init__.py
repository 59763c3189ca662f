"""The command line: validate, run, and what an operator asks of a data directory."""
