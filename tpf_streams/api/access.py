"""Who asks, and for which tenant."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from tpf_streams.api.problems import ProblemError
from tpf_streams.dsl.settings import Settings

TENANT_HEADER = "x-tenant-id"
TENANT_CHARS_MAX = 256


@dataclass(frozen=True, slots=True)
class Caller:
    """`principal`: who was authenticated; None where nobody is asked who he is."""

    tenant: str
    principal: str | None = None


class Access:
    """The tenants of one pipeline."""

    def __init__(self, default_tenant: str = "default") -> None:
        self._default = default_tenant

    @classmethod
    def of(cls, settings: Settings) -> Access:
        return cls(settings.required_text("pipeline.orchestrator.default-tenant"))

    def caller(self, request: web.Request, *, explicit: bool) -> Caller:
        """`explicit`: this route wants the tenant named (contract 9.1). Raises ProblemError."""
        tenant = request.headers.get(TENANT_HEADER, "").strip()
        if not tenant and explicit:
            raise ProblemError(400, "tenant_required", f"tenantId header is required: {TENANT_HEADER}")
        if len(tenant) > TENANT_CHARS_MAX or not tenant.isprintable():
            raise ProblemError(400, "invalid_argument", f"{TENANT_HEADER}: at most {TENANT_CHARS_MAX} characters")
        return Caller(tenant or self._default)
