"""What `replay` says: each letter that is left alone, and the counts at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from control.dead_letters.decisions import MEANINGS, LeftAlone, Why
from control.dead_letters.letters import Letter
from control.dead_letters.replay import Tally
from control.dead_letters.terminal import visible

_LONGEST = 128


def left_line(letter: Letter, alone: LeftAlone) -> str | None:
    """Say which letter is left alone and why; those replayed before are many and only counted."""
    if alone.why is Why.REPLAYED:
        return None
    words = (letter.kind, letter.ref, letter.job or "-", letter.id or "-")
    return f"left alone: {'  '.join(visible(word, _LONGEST) for word in words)}: {alone.why}{_detail(alone.detail)}"


def as_fields(tally: Tally, run: str, *, dry_run: bool, acknowledged: int) -> dict[str, Any]:
    """The counts as one object; matched = sent + left alone, whether sent or only to be sent."""
    return {
        "dry_run": dry_run,
        "run": None if dry_run else run,
        "matched": tally.matched,
        "would_send" if dry_run else "sent": tally.sent.total(),
        "acknowledged": acknowledged,
        "by_reason": [
            {"kind": kind, "reason": reason or None, "letters": number}
            for (kind, reason), number in tally.sent.most_common()
        ],
        "left_alone": [
            {"kind": kind, "why": why, "reason": reason or None, "letters": number}
            for (kind, why, reason), number in tally.left.most_common()
        ],
    }


def lines(fields: dict[str, Any]) -> Iterator[str]:
    """The counts in words."""
    if not fields["matched"]:
        yield "no dead letter matches"
        return
    if fields["dry_run"]:
        yield f"would send {fields['would_send']:,} (dry run: nothing was sent)"
    else:
        yield f"sent {fields['sent']:,}, acknowledged {fields['acknowledged']:,}, run {fields['run']}"
    for part in fields["by_reason"]:
        yield f"  {part['kind']}  {visible(part['reason'] or '-', _LONGEST)}  {part['letters']:,}"
    if fields["left_alone"]:
        yield f"left alone {sum(part['letters'] for part in fields['left_alone']):,}"
    for part in fields["left_alone"]:
        detail = visible(_detail(part["reason"]), _LONGEST)
        yield f"  {part['kind']}  {part['why']}{detail}  {part['letters']:,}: {MEANINGS[Why(part['why'])]}"


def _detail(detail: str | None) -> str:
    return f" ({detail})" if detail else ""
