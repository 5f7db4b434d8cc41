"""`list`: the letters one by one, and their counts; never a word of a prompt or an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from control.dead_letters import terminal
from control.dead_letters.letters import Letter
from control.dead_letters.links import Key, Link, is_done, mark

_AT_ONCE = 200
TITLES = ("died", "kind", "reason", "job", "id", "letter", "since")
Known = Callable[[Iterable[Key]], dict[Key, list[Link]]]
Show = Callable[[Sequence[tuple[Letter, list[Link]]]], None]


class Listing:
    """Shows letters as they come, up to a limit, and counts all of them."""

    def __init__(self, known: Known, show: Show, limit: int | None) -> None:
        self._known = known
        self._show = show
        self._limit = limit
        self.shown = 0
        self.counts: Counter[tuple[str, str]] = Counter()
        self.replayed: Counter[tuple[str, str]] = Counter()

    def run(self, letters: Iterable[Letter]) -> None:
        """Go through the letters, a bounded number at a time."""
        rest = iter(letters)
        while batch := list(islice(rest, _AT_ONCE)):
            links = self._known(letter.key for letter in batch)
            pairs = [(letter, links.get(letter.key, [])) for letter in batch]
            for letter, known in pairs:
                self.counts[_class(letter)] += 1
                self.replayed[_class(letter)] += is_done(known)
            room = _AT_ONCE if self._limit is None else self._limit - self.shown
            self._show(pairs[:room])
            self.shown += len(pairs[:room])

    @property
    def summary(self) -> list[dict[str, Any]]:
        """Counts by kind and reason, the most first."""
        return [
            {"kind": kind, "reason": reason or None, "letters": number, "replayed": self.replayed[kind, reason]}
            for (kind, reason), number in self.counts.most_common()
        ]


def row(letter: Letter, links: Sequence[Link]) -> tuple[object, ...]:
    """A letter as cells of a table."""
    return (letter.at, letter.kind, letter.reason, letter.job, letter.id, letter.ref, mark(links))


def fields(letter: Letter, links: Sequence[Link]) -> dict[str, Any]:
    """A letter as fields for a machine."""
    return {
        "kind": letter.kind,
        "letter": letter.ref,
        "came_from": str(letter.source) if letter.source else None,
        "replay_of": letter.of,
        "died_at": letter.at,
        "reason": letter.reason,
        "job": letter.job,
        "id": letter.id,
        "replays": [replay_fields(link) for link in links],
    }


def replay_fields(link: Link) -> dict[str, Any]:
    """One replay as fields."""
    return {
        "letter": link.ancestor,
        "run": link.run,
        "replayed_as": link.place,
        "replayed_at": link.replayed_at,
        "acknowledged_at": link.acknowledged_at,
        "status": link.status,
    }


def summary_lines(summary: Sequence[Mapping[str, Any]], shown: int) -> list[str]:
    """The counts in words."""
    total = sum(part["letters"] for part in summary)
    if not total:
        return ["no dead letter matches"]
    lines = [f"{total:,} dead letters" + (f", {shown:,} shown" if shown < total else "")]
    for part in summary:
        replayed = f" ({part['replayed']:,} replayed)" if part["replayed"] else ""
        reason = terminal.visible(str(part["reason"] or "-"), 128)
        lines.append(f"  {part['kind']}  {reason}  {part['letters']:,}{replayed}")
    return lines


def _class(letter: Letter) -> tuple[str, str]:
    return letter.kind, letter.reason or ""
