"""Where a list of pending interactions goes on.

A place is the deadline and the id of the last one that was shown. Both never change while the interaction is open, so
whatever ends or begins meanwhile, the next page holds what stood behind that place and nothing that stood before it.
"""

from __future__ import annotations

import base64
import struct
from typing import NamedTuple

from tpf_streams.core.rows import raw_id, text_id
from tpf_streams.runtime.refusals import OperatorError

_PLACE = struct.Struct(">BQ16s")
_VERSION = 1


class Place(NamedTuple):
    """Pending interactions are listed in this order, over all partitions."""

    deadline_epoch_ms: int
    interaction_id: str

    def cursor(self) -> str:
        """As programs hand it back: base64url, nothing to read in it."""
        packed = _PLACE.pack(_VERSION, self.deadline_epoch_ms, raw_id(self.interaction_id))
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def place_of(cursor: str) -> Place:
    """Raises OperatorError for what is no cursor of ours."""
    try:
        packed = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        version, deadline, raw = _PLACE.unpack(packed)
    except (ValueError, struct.error):
        raise OperatorError("cursor: give back the one of the page before, as it is") from None
    if version != _VERSION:
        raise OperatorError("cursor: it is of another version; begin the list anew")
    return Place(deadline, text_id(raw))
