"""`show`: everything about one letter, and of its payload nothing unless it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from control.dead_letters import terminal
from control.dead_letters.letters import Letter, Raw
from control.dead_letters.links import Link
from control.dead_letters.listing import fields, replay_fields
from schemas.statuses import Status

# Columns that hold what was answered, or what a server said, which may quote what was asked.
PAYLOAD_COLUMNS = frozenset({"result", "result_json", "detail"})
_LONGEST_PAYLOAD = 20_000


@dataclass(frozen=True, slots=True, repr=False)
class Facts:
    """What is known of one letter or row."""

    letter: Letter
    row: Mapping[str, Any] | None
    calls: Sequence[Mapping[str, Any]]
    line: Sequence[Link]
    raw: Raw | None


def as_fields(facts: Facts, *, payload: bool) -> dict[str, Any]:
    """Everything as one object; bytes as text, with what is no UTF-8 spelled out."""
    found = fields(facts.letter, [link for link in facts.line if link.key == facts.letter.key])
    del found["replays"]
    if facts.letter.raw:
        found["headers"] = [[name, _text(value)] for name, value in facts.letter.raw.headers]
        found["key"] = _text(facts.letter.raw.key)
        found["bytes"] = facts.letter.size
    if facts.row is not None:
        found["kind"] = facts.letter.kind if facts.row["status"] == Status.FAILED else None
        found["row"] = _without(facts.row, payload)
        found["calls"] = [_without(call, payload) for call in facts.calls]
    found["replays"] = [replay_fields(link) for link in facts.line]
    if payload:
        found["payload"] = _text(facts.raw.value) if facts.raw else None
    return found


def show(console: Console, facts: Facts, *, payload: bool) -> None:
    """The same for people."""
    found = as_fields(facts, payload=payload)
    headers, row, calls, replays = (found.pop(name, None) for name in ("headers", "row", "calls", "replays"))
    text = found.pop("payload", None)
    terminal.pairs(console, f"{found.pop('kind') or (facts.row and facts.row['status'])} {facts.letter.ref}", found)
    if headers is not None:
        terminal.pairs(console, "headers", dict(_numbered(headers)))
    if row is not None:
        terminal.pairs(console, "row", row, _LONGEST_PAYLOAD)
        for call in calls:
            terminal.pairs(console, f"call {call.pop('attempt')}", call)
    for link in replays:
        terminal.pairs(console, f"replay of {link.pop('letter')}", link)
    if payload:
        shown = "it has expired, or was never there" if text is None else text
        terminal.pairs(console, "payload", {"message": shown}, _LONGEST_PAYLOAD)


def _without(columns: Mapping[str, Any], payload: bool) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if payload or name not in PAYLOAD_COLUMNS}


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf8", "backslashreplace")


def _numbered(headers: Sequence[Sequence[str | None]]) -> list[tuple[str, str]]:
    """A header may come twice; a mapping would keep the last."""
    names = [str(name) for name, _ in headers]
    return [
        (name if names.count(name) == 1 else f"{name} ({names[: n + 1].count(name)})", str(headers[n][1]))
        for n, name in enumerate(names)
    ]
