"""Apache Kafka for tests: KRaft nodes run straight from the Maven jars, without Docker and without an installation.

    with KraftBroker() as broker:
        AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

The jars are resolved once per version by the ordinary `mvn` client and kept outside of the source tree. Every broker
lives in a temporary directory on free loopback ports, so that several can run side by side.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

KAFKA_VERSION = "4.4.0"
CACHE_VARIABLE = "TPF_KAFKA_CACHE"

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_SERVER = "kafka.Kafka"
_STORAGE_TOOL = "kafka.tools.StorageTool"

_RESOLVE_TIMEOUT_S = 540.0
_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 20.0
_TOOL_TIMEOUT_S = 60.0
# The server logs this after it is registered and unfenced. An open port alone comes too early: metadata requests
# are answered before the node is listed in the cluster, and topic creation then fails for want of brokers.
_READY_LINE = "Kafka Server started"

_ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", None),
    ("org.apache.kafka", "kafka-tools", None),  # the console producer and consumer
    ("org.slf4j", "slf4j-simple", "1.7.36"),  # without a binding Kafka logs nothing at all; follows its slf4j-api
)
_POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tpf.streams</groupId><artifactId>kafka-for-tests</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"

_LOGGING = ("org.slf4j.simpleLogger.showDateTime=true", "org.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS")

SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # A misspelt topic must fail, not spring into being with one partition.
    "auto.create.topics.enable": "false",
    # The default of 3 s is meant for large groups; here it would only be added to every first join.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # 50 partitions each, created on first use, are the slowest part of a small broker's life.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    # How soon an overdue transaction is noticed; the default of 10 s would be paid by every time-out test.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    # Compaction tests wait for the cleaner, which otherwise looks every 15 s.
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
}


class KafkaUnavailable(Exception):
    """The jars could not be resolved, or a node did not come up; the message says which."""


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """The directory with Kafka's jars, filled on first use."""
    default = Path.home() / ".cache" / "tpf-streams" / f"kafka-{version}"
    directory = Path(os.environ.get(CACHE_VARIABLE) or default)
    if not any(directory.glob("kafka_2.13-*.jar")):
        _resolve(version, directory)
    return directory


def _resolve(version: str, directory: Path) -> None:
    if shutil.which("mvn") is None:
        raise KafkaUnavailable("mvn is not installed, so Kafka's jars cannot be resolved")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".resolving-") as work:
        pom, jars = Path(work, "pom.xml"), Path(work, "jars")
        wanted = (_DEPENDENCY.format(group, name, pinned or version) for group, name, pinned in _ARTIFACTS)
        pom.write_text(_POM.format(dependencies="".join(wanted)))
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
        result = subprocess.run(
            ["mvn", "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, timeout=_RESOLVE_TIMEOUT_S
        )
        if result.returncode != 0:
            raise KafkaUnavailable(f"mvn could not resolve Kafka {version}:\n{result.stdout}{result.stderr}")
        # One rename, so that a directory which is there is complete; a parallel resolver may have been quicker.
        with contextlib.suppress(OSError):
            jars.rename(directory)


_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A broker of tests lives for seconds: the optimising compiler took half of its CPU and never paid off (seen: 89 us an
item of the raw loop with it, 50 without)."""


def java_command(main_class: str, *arguments: str, heap: str = "256m", properties: Sequence[str] = ()) -> list[str]:
    """A command line that runs one of Kafka's main classes."""
    if shutil.which("java") is None:
        raise KafkaUnavailable("java is not installed")
    options = [f"-Xmx{heap}", *_SHORT_LIVED, *(f"-D{item}" for item in properties)]
    return ["java", *options, "-cp", f"{kafka_jars()}/*", main_class, *arguments]


def _free_ports(count: int) -> list[int]:
    # All are held until the last is known: one at a time, the kernel may hand out the same port twice.
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(item.getsockname()[1]) for item in sockets]


class KraftNode:
    """One Kafka process, broker and controller in one."""

    def __init__(self, directory: Path, settings: Mapping[str, str], heap: str) -> None:
        self._directory = directory
        self._heap = heap
        self._config = directory / "server.properties"
        self._console = directory / "console.log"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True)
        self._config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    @property
    def pid(self) -> int:
        return self._running().pid

    def format(self, cluster_id: str) -> None:
        """One word with its option: every 64th id begins with a dash, and would be taken for an option itself."""
        command = self._java(_STORAGE_TOOL, "format", f"--cluster-id={cluster_id}", "-c", str(self._config))
        result = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S)
        if result.returncode != 0:
            raise KafkaUnavailable(f"the storage could not be formatted:\n{result.stdout}{result.stderr}")

    def launch(self) -> None:
        """Start the process; `wait_until_ready` is separate because a quorum comes up only together."""
        command = self._java(_SERVER, str(self._config))
        if shutil.which("setpriv"):
            # A test run that is killed takes no farewell: the kernel then ends the node for it. It does so when the
            # starting THREAD ends, so a node is started from the main thread, never by `asyncio.to_thread`.
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        with self._console.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=self._directory)

    def wait_until_ready(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while _READY_LINE not in self.console():
            if self._running().poll() is not None or time.monotonic() > deadline:
                raise KafkaUnavailable(f"the node did not become ready:\n{self.console()[-4000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop in good order; after the time-out, by force. A node that is not running is left alone."""
        process = self._process
        if process is None:
            return
        self._signal(signal.SIGCONT)  # a paused process would never see the next signal
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._process = None

    def kill(self) -> None:
        """SIGKILL: nothing is flushed and nobody is told. A node that is not running is left alone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def console(self) -> str:
        return self._console.read_text(errors="replace") if self._console.exists() else ""

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise KafkaUnavailable("the node is not running")
        return self._process

    def _signal(self, number: signal.Signals) -> None:
        self._running().send_signal(number)

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        return java_command(main_class, *arguments, heap=self._heap, properties=_LOGGING)


class KraftBroker:
    """A cluster of one node, or of three when leader moves matter; a context manager."""

    def __init__(self, nodes: int = 1, settings: Mapping[str, str] | None = None, heap: str = "512m") -> None:
        self._size = nodes
        self._extra = dict(settings or {})
        self._heap = heap
        self._ports: list[int] = []
        self._directory: Path | None = None
        self.nodes: list[KraftNode] = []

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def start(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="tpf-kafka-"))
        try:
            self._start_nodes(self._directory)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the cluster and remove its data; by force, since a good end would be waited for and then thrown away."""
        for node in self.nodes:
            node.kill()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self.nodes, self._directory = [], None

    def kill(self, node: int = 0) -> None:
        self.nodes[node].kill()

    def restart(self, node: int = 0) -> None:
        """Start a killed or stopped node again, on the same port and data."""
        self.nodes[node].launch()
        self.nodes[node].wait_until_ready()

    def pause(self, node: int = 0) -> None:
        """Connections stay open and nothing answers: what a client sees of a long collection or a dead network."""
        self.nodes[node].pause()

    def resume(self, node: int = 0) -> None:
        self.nodes[node].resume()

    @contextlib.contextmanager
    def console(self, main_class: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run a console tool against this cluster; it is ended with the block."""
        with console_tool(self.bootstrap_servers, main_class, *arguments) as process:
            yield process

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_nodes(self, directory: Path) -> None:
        ports = _free_ports(self._size * 2)
        self._ports, controllers = ports[: self._size], ports[self._size :]
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for number, (port, controller) in enumerate(zip(self._ports, controllers, strict=True), 1):
            home = directory / f"node-{number}"
            settings = self._node_settings(home, number, port, controller) | {"controller.quorum.voters": voters}
            node = KraftNode(home, settings | self._extra, self._heap)
            node.format(cluster_id)
            self.nodes.append(node)
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait_until_ready()

    def _node_settings(self, home: Path, number: int, port: int, controller: int) -> dict[str, str]:
        replicas = str(min(self._size, 3))
        return {
            **SETTINGS,
            "node.id": str(number),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(home / "data"),
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "2" if self._size > 1 else "1",
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": "1",
        }


@contextlib.contextmanager
def console_tool(bootstrap_servers: str, main_class: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a console tool against any cluster; it is ended with the block."""
    with _pipes(java_command(main_class, "--bootstrap-server", bootstrap_servers, *arguments)) as process:
        yield process


@contextlib.contextmanager
def _pipes(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            _close(pipe)


def _close(pipe: IO[str] | None) -> None:
    # Unsent input is flushed by close, into a process that is gone.
    with contextlib.suppress(BrokenPipeError):
        if pipe is not None:
            pipe.close()
