"""HTTP: one set of routes, under `tpf-streams run --http` and under Faust's web server (contract 9.1, 0.4).

A route asks `runtime.operator.Operator` by command name, as the control socket does, and says its answer in HTTP. The
table of routes is what the OpenAPI document is made of, so that neither can say what the other does not.
"""

from tpf_streams.api.limits import ApiLimits
from tpf_streams.api.server import ApiPortError, ApiServer
from tpf_streams.api.service import Api

__all__ = ["Api", "ApiLimits", "ApiPortError", "ApiServer"]
