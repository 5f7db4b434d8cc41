"""Values of settings as they may be shown: `***` stands for what is or may be a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl

from schemas.database import address_fault

HIDDEN = "***"

_POSTGRES = {"postgresql", "postgres", "postgresql+psycopg"}
_NAME = re.compile(r"[A-Za-z0-9_.%+-]*")
_HOSTS = re.compile(r"[A-Za-z0-9_.:,%\[\]-]*")
# Parameters of a database's address that hold no secret.
_HARMLESS = {"application_name", "connect_timeout", "host", "port", "sslmode", "sslrootcert", "target_session_attrs"}
_PROPERTY = re.compile(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)*")
_SECRET_PROPERTY = re.compile(r"pass|secret|key|token|credential|jaas|pem|oauthbearer|login|config")
_USER = re.compile(r"://.*@")
_QUERY = re.compile(r"[?#].*", re.DOTALL)


def secret(text: str) -> str:
    """Show of a secret nothing, or of a database's address all but its password."""
    scheme, found, rest = text.partition("://")
    return _address(scheme, rest) if found and scheme in _POSTGRES and not address_fault(rest) else HIDDEN


def plain(text: str) -> str:
    """Show a value that is no secret, without a user, a password or a query that an address in it may hold."""
    if "://" in text:
        return _QUERY.sub(f"?{HIDDEN}", _USER.sub(f"://{HIDDEN}@", text))
    return f"{HIDDEN}@{text.rpartition('@')[2]}" if "@" in text else text


def properties(text: str) -> str:
    """Show `name=value,name=value` up to the first property that may hold a secret: a comma may be part of that."""
    shown: list[str] = []
    rest = text
    while rest:
        part, comma, rest = rest.partition(",")
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (equals and _PROPERTY.fullmatch(name)):
            return ",".join([*shown, HIDDEN])
        if _SECRET_PROPERTY.search(name) and not name.endswith(".location"):
            return ",".join([*shown, f"{name}={HIDDEN}", *([HIDDEN] if comma else [])])
        shown.append(f"{name}={plain(value)}")
    return ",".join(shown)


def path(text: str) -> str:
    """Show the path of a file; what looks like none may be the secret itself."""
    return text if "/" in text else HIDDEN


def without(said: str, paths: Iterable[str]) -> str:
    """Take out of a sentence those paths that look like none."""
    for named in paths:
        if named and path(named) != named:
            said = said.replace(f" {named} ", f" {HIDDEN} ")
    return said


def _address(scheme: str, rest: str) -> str:
    server, slash, place = rest.partition("/")
    login, at, hosts = server.rpartition("@")
    user, colon, _ = login.partition(":")
    hosts, in_hosts, query = hosts.partition("?")
    base, in_path, more = place.partition("?")
    if not _NAME.fullmatch(user):
        return HIDDEN
    asked = [f"{name}={value if name in _HARMLESS else HIDDEN}" for name, value in parse_qsl(query or more)]
    who = f"{user}{colon and f':{HIDDEN}'}{at}"
    shown = f"{scheme}://{who}{_only(_HOSTS, hosts)}{slash}{_only(_NAME, base)}"
    return f"{shown}?{'&'.join(asked)}" if in_hosts or in_path else shown


def _only(shape: re.Pattern[str], text: str) -> str:
    return text if shape.fullmatch(text) else HIDDEN
