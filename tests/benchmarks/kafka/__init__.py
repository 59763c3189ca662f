"""Figures on Apache Kafka: ours beside a raw closed loop on one broker. `python -m tests.benchmarks.kafka`."""
