"""What serve was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.value import Value

if TYPE_CHECKING:
    from kdump.format.read_limits import ReadLimits

SKIP = "skip"
STOP = "stop"
ON_DAMAGE = (SKIP, STOP)


class Address(Value):
    """Where clients connect."""

    host: str  # a name, or an address of IPv4 or IPv6
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ServeOptions(Value):
    """What was asked for."""

    listen: Address  # port 0: one that is free
    advertise: Address | None  # that clients are told; None for the one that is listened at
    at: int | None  # the moment that is served, ms; None for the end
    topics: frozenset[str]  # only these; none for all
    replica: str | None  # the path whose copy of a partition is served; None for the best copy
    on_damage: str  # one of ON_DAMAGE
    limits: ReadLimits  # what is read at most
