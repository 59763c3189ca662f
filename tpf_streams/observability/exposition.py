"""A scrape: the registry as text, and a server of it for a process that has none."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.exposition import choose_encoder

from tpf_streams.errors import TpfError

PATH = "/metrics"


class MetricsPortError(TpfError):
    """The port of the metrics server cannot be had."""

    code = "METRICS_PORT"


def scrape(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """The registry in the format that `accept`, the header, asks for; -> the body and its content type."""
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class MetricsServer:
    """Serves a registry from threads of its own: it answers while the loop is busy, and ends with the process."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        """Listens at once. Port 0 takes a free one. Raises MetricsPortError."""
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise MetricsPortError(f"metrics cannot be served on {host}:{port}: {error.strerror or error}") from error

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        shown = host if isinstance(host, str) else host.decode()
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}{PATH}"

    def close(self) -> None:
        """Idempotent; a scrape under way is not waited for."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
