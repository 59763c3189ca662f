"""Who asks, and for which tenant.

Without `http.bearer-tokens` nobody is asked who he is, and the tenant is what the header says. With them every request
under /pipeline needs one: it tells the tenant, and the principal whose name stands in the answers that he gives.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from aiohttp import web

from tpf_streams.api.problems import ProblemError
from tpf_streams.dsl.settings import Settings
from tpf_streams.dsl.tenancy import BearerToken, NoTenantError, Tenancy, TenantError, bearer_tokens

TENANT_HEADER = "x-tenant-id"
TENANT_CHARS_MAX = 256


@dataclass(frozen=True, slots=True)
class Caller:
    """`principal`: who was authenticated; None where nobody is asked who he is."""

    tenant: str
    principal: str | None = None


class Access:
    """Of one pipeline."""

    def __init__(self, tenancy: Tenancy, tokens: Iterable[BearerToken] = ()) -> None:
        self._tenancy = tenancy
        self._digests = tuple((_digest(it.token), Caller(it.tenant, it.principal)) for it in tokens)

    @classmethod
    def of(cls, settings: Settings) -> Access:
        return cls(Tenancy.of(settings), bearer_tokens(settings))

    @property
    def default_tenant(self) -> str:
        return self._tenancy.default

    @property
    def guarded(self) -> bool:
        """Whether a token is wanted."""
        return bool(self._digests)

    def caller(self, request: web.Request, *, explicit: bool) -> Caller:
        """`explicit`: this route wants the tenant named (contract 9.1), which a token does. Raises ProblemError."""
        tenant = request.headers.get(TENANT_HEADER, "").strip()
        if len(tenant) > TENANT_CHARS_MAX or not tenant.isprintable():
            raise ProblemError(400, "invalid_argument", f"{TENANT_HEADER}: at most {TENANT_CHARS_MAX} characters")
        if self._digests:
            found = self._authenticated(request.headers.get("Authorization", ""))
            if tenant not in ("", found.tenant):
                raise ProblemError(403, "tenant_not_allowed", "the token is of another tenant")
            return found
        if not tenant and explicit:
            raise ProblemError(400, "tenant_required", f"tenantId header is required: {TENANT_HEADER}")
        try:
            return Caller(self._tenancy.tenant(tenant))
        except NoTenantError:
            raise ProblemError(400, "tenant_required", f"tenantId header is required: {TENANT_HEADER}") from None
        except TenantError as error:
            raise ProblemError(403, "tenant_not_allowed", str(error)) from None

    def _authenticated(self, header: str) -> Caller:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise _unauthenticated("a bearer token is required")
        given, found = _digest(token.strip()), None
        for digest, caller in self._digests:  # all of them: how long it takes says nothing
            if hmac.compare_digest(given, digest):
                found = caller
        if found is None:
            raise _unauthenticated("the bearer token is not known", ' error="invalid_token"')
        return found


def check_origin(request: web.Request) -> None:
    """A page of somebody else may not decide anything here, which a browser on the same machine would let it: what has
    no body is sent without asking first. Programs say nothing of the kind. Raises ProblemError."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is None and origin is not None:  # an older browser, or one that came without TLS
        site = "same-origin" if origin.partition("://")[2] == request.host else "cross-site"
    if site not in (None, "same-origin", "none"):
        raise ProblemError(403, "cross_origin", "a page of another origin may not call this")


def _digest(token: str) -> bytes:
    """Of any text: what a client sends need not be ASCII, nor text at all."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _unauthenticated(detail: str, more: str = "") -> ProblemError:
    problem = ProblemError(401, "unauthenticated", detail)
    problem.headers = {"WWW-Authenticate": f"Bearer{more}"}
    return problem
