"""What every program knows of the database without knowing its tables."""

from __future__ import annotations

import re

SCHEMA = "headrace"
# The newest migration: what a worker needs to find.
REVISION = "0007"
# How long a claim holds without being renewed, on the database's clock, and how often its owner renews it.
LEASE_SECONDS = 60
RENEW_SECONDS = 20
# A message whose third owner died is not started a fourth time.
MAX_STARTS = 3

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SERVER = re.compile(r"(\[[^\]]*\]|[^:]*)(:\d*)?")
_REFUSED = re.compile(
    "authentication failed|no pg_hba.conf entry|certificate verify failed|does not match host name"
    "|root certificate file|does not support SSL"
)
_PLACE = "connection failed: connection to server at "


def address_fault(rest: str) -> str | None:
    """Say what is wrong with what follows `postgresql://`, or None.

    A password that is not percent-encoded is taken for a host or a port, and error messages would show it.
    """
    server, _, path = rest.partition("/")
    user, _, servers = server.rpartition("@")
    if "@" in user or "@" in path.partition("?")[0] or _BROKEN_ESCAPE.search(rest):
        return "must percent-encode what is special in the user and the password: %40 for @, %2F for /, %25 for %"
    if not all(_SERVER.fullmatch(one) for one in servers.partition("?")[0].split(",")):
        return "must name its port by a number, and percent-encode / and : in the user and the password"
    return None


def told(error: Exception) -> str:
    """Say in one line why no connection could be made: addresses and names, never a password."""
    return " ".join(str(error).strip().split("\n", maxsplit=1)[0].removeprefix(_PLACE).split())


def is_refusal(said: str) -> bool:
    """Tell whether no repetition helps: the server does not know us, or is not the one that we trust.

    A server that says so in another language is waited for instead.
    """
    return bool(_REFUSED.search(said))
