"""The log on Apache Kafka: exactly-once turns by transactions, tasks shared by a consumer group (architecture D3).

Read in the order of the data: settings, topics, membership (inputs), task (a turn), changelog and restore (rows),
reader and client (what stands beside the tasks). The rules that this package keeps, and the failure each prevents, are
tests against a real broker in tests/integration.
"""

from tpf_streams.logs.kafka.client import KafkaClient
from tpf_streams.logs.kafka.log import KafkaLog
from tpf_streams.logs.kafka.settings import KafkaSettings
from tpf_streams.logs.kafka.stopping import stop
from tpf_streams.logs.kafka.topics import TopicSpec, TopicUse

__all__ = ["KafkaClient", "KafkaLog", "KafkaSettings", "TopicSpec", "TopicUse", "stop"]
