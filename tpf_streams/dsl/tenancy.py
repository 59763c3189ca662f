"""Who may call, and for which tenant: the settings `tenancy.*` and `http.bearer-tokens`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tpf_streams.dsl.report import Report
from tpf_streams.dsl.settings import Settings
from tpf_streams.errors import TpfError

DEFAULT = "pipeline.orchestrator.default-tenant"
ALLOWED = "pipeline.orchestrator.tenancy.allowed-tenants"
EXPLICIT = "pipeline.orchestrator.tenancy.require-explicit-tenant"
TOKENS = "http.bearer-tokens"
TOKEN_CHARS_MIN = 16


class TenantError(TpfError):
    """A call that names no tenant where one has to be named, or one that may not call."""

    code = "TENANT_NOT_ALLOWED"


class NoTenantError(TenantError):
    code = "TENANT_REQUIRED"


@dataclass(frozen=True, slots=True)
class Tenancy:
    """`allowed` empty: every tenant may call."""

    default: str
    allowed: Collection[str] = ()
    explicit: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Tenancy:
        return cls(settings.required_text(DEFAULT), settings.texts(ALLOWED), settings.flag(EXPLICIT))

    def tenant(self, named: str | None) -> str:
        """The tenant of a call that names one, or none. Raises TenantError."""
        tenant = (named or "").strip()
        if not tenant and self.explicit:
            raise NoTenantError(f"the tenant has to be named ({EXPLICIT})")
        tenant = tenant or self.default
        if self.allowed and tenant not in self.allowed:
            raise TenantError("this tenant may not call (tenancy.allowed-tenants)")
        return tenant


@dataclass(frozen=True, slots=True)
class BearerToken:
    """Who has the token is `principal`, and calls for `tenant`."""

    tenant: str
    principal: str
    token: str


def bearer_tokens(settings: Settings) -> Iterator[BearerToken]:
    """Raises ValueError for an entry that is none; it is named by its place, since it may be most of a secret."""
    for number, text in enumerate(settings.texts(TOKENS), 1):
        tenant, _, rest = text.partition(":")
        principal, _, token = rest.partition(":")
        if not (tenant.strip() and principal.strip()):
            raise ValueError(f"entry {number}: TENANT:PRINCIPAL:TOKEN is wanted")
        if len(token) < TOKEN_CHARS_MIN:
            raise ValueError(f"entry {number}: a token has at least {TOKEN_CHARS_MIN} characters")
        yield BearerToken(tenant.strip(), principal.strip(), token)


def check_tenancy(settings: Settings, report: Report) -> None:
    """What the two say must fit: a default tenant that may not call would refuse every call that names none."""
    given, allowed = settings.given(ALLOWED), settings.texts(ALLOWED)
    if given is not None and settings.required_text(DEFAULT) not in allowed and not settings.flag(EXPLICIT):
        given.problem(report, f"{DEFAULT} is not among them: add it, or set {EXPLICIT}=true")
    tokens = settings.given(TOKENS)
    try:
        found = list(bearer_tokens(settings))
    except ValueError as error:
        assert tokens is not None
        tokens.problem(report, str(error))
        return
    for number, it in enumerate(found, 1):
        if tokens is not None and allowed and it.tenant not in allowed:
            tokens.problem(report, f"entry {number}: its tenant is not among {ALLOWED}")
    if tokens is not None and len({it.token for it in found}) < len(found):
        tokens.problem(report, "one token stands there twice: it would not tell who calls")
