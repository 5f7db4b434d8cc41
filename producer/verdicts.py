"""Why a row is not published: one verdict a row, the first reason that holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import Column
from pyspark.sql import functions as fn

from producer.columns import CORRUPT, ID, MODEL, PROMPT, RULE, any_of, column, first_of, text_of
from producer.request import turn_columns
from producer.texts import (
    has_more_characters,
    has_more_tokens,
    has_outer_space,
    is_blank,
    is_no_text,
    script_share,
    tokens,
)
from schemas import ids
from schemas.job import Job
from schemas.message import MAX_ID_BYTES
from schemas.text import REPLACEMENT
from schemas.topics import MAX_MESSAGE_BYTES

REASON = "reject_reason"
DETAIL = "reject_detail"


class Reject(StrEnum):
    """The closed list of reasons; `reject_reason` in the table of rejected rows."""

    UNREADABLE_ROW = "unreadable_row"
    NULL_ID = "null_id"
    INVALID_ID = "invalid_id"
    NO_RULE = "no_rule"
    RULED_OUT = "ruled_out"
    NULL_COLUMN = "null_column"
    INVALID_TEXT = "invalid_text"
    OTHER_LANGUAGE = "other_language"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    BLANK_PROMPT = "blank_prompt"
    MESSAGE_TOO_LARGE = "message_too_large"
    CONFLICTING_ID = "conflicting_id"


@dataclass(frozen=True, slots=True)
class Message:
    """How a row's message is written, which costs more than all checks together, so only rows that may be too long
    are measured by it; and at most how many bytes of it are not the row's own."""

    json: Column
    shared_bytes: int


def verdict(job: Job, message: Message, *, corrupt: bool, lossy: bool) -> Column:
    """Judge a prepared row: a struct of reason and detail, or null if it may be published.

    A prompt is blank when every column that the template names is blank: then nothing of the row is in it.
    """
    named = sorted(job.prompt.columns)
    checks = [
        *([(column(CORRUPT).isNotNull(), reject(Reject.UNREADABLE_ROW))] if corrupt else []),
        (column(ID).isNull(), reject(Reject.NULL_ID)),
        *_ids(job, lossy),
        *_rules(job),
        *((column(text_of(name)).isNull(), reject(Reject.NULL_COLUMN, name)) for name in named),
        *((_is_broken_text(name, lossy), reject(Reject.INVALID_TEXT, name)) for name in named),
        *_lengths(job),
        (_all(is_blank(column(text_of(name))) for name in named), reject(Reject.BLANK_PROMPT)),
        *_turns(job),
        *_language(job, named),
        (_may_be_large(message) & (_size(message) > MAX_MESSAGE_BYTES), _too_large(message)),
    ]
    return first_of(checks)


def reject(reason: Reject, detail: str | Column | None = None) -> Column:
    """Make a verdict; the detail names columns, lengths and sizes, never what a row says."""
    text = detail if isinstance(detail, Column) else fn.lit(detail)
    return fn.struct(fn.lit(str(reason)).alias("reason"), text.cast("string").alias("detail"))


def _ids(job: Job, lossy: bool) -> Iterable[tuple[Column, Column]]:
    """Say of an id what `schemas.message.id_problem` says of it."""
    id_ = column(ID)
    broken = any_of(_is_broken(name, lossy) for name in ids.columns(job.id))
    yield broken, reject(Reject.INVALID_ID, "is not of the file's encoding")
    yield id_ == "", reject(Reject.INVALID_ID, "is empty")
    yield has_outer_space(id_), reject(Reject.INVALID_ID, "has surrounding white space")
    yield id_.contains("\0"), reject(Reject.INVALID_ID, "holds U+0000")
    yield fn.octet_length(id_) > MAX_ID_BYTES, reject(Reject.INVALID_ID, f"is longer than {MAX_ID_BYTES} bytes")


def _rules(job: Job) -> Iterable[tuple[Column, Column]]:
    if not job.rules:
        return
    yield column(RULE).isNull(), reject(Reject.NO_RULE)
    if unsent := [rule.name for rule in job.rules if not rule.send]:
        yield column(RULE).isin(unsent), reject(Reject.RULED_OUT, column(RULE))


def _turns(job: Job) -> Iterable[tuple[Column, Column]]:
    """Judge each message of a chat for itself: a blank one would make the whole unreadable."""
    if len(turns := turn_columns(job.prompt)) > 1:
        yield any_of(is_blank(column(name)) for name in turns), reject(Reject.BLANK_PROMPT, "a message of the chat")


def _language(job: Job, named: Sequence[str]) -> Iterable[tuple[Column, Column]]:
    wanted = job.language
    if wanted and wanted.column:
        said = fn.lower(fn.trim(column(wanted.column).cast("string")))
        known = said.isin([word.lower().strip() for word in wanted.keep])
        yield ~fn.coalesce(known, fn.lit(False)), reject(Reject.OTHER_LANGUAGE, wanted.column)
    if wanted and wanted.scripts:
        share = fn.coalesce(
            script_share(fn.concat_ws(" ", *map(column, map(text_of, named))), wanted.scripts), fn.lit(0)
        )
        detail = fn.concat(fn.round(share * 100).cast("int"), fn.lit(f" % {', '.join(wanted.scripts)}"))
        yield share < wanted.min_share, reject(Reject.OTHER_LANGUAGE, detail)


def _is_broken_text(name: str, lossy: bool) -> Column:
    """Tell whether bytes of the source that are no text reach the message, where they would stand as U+FFFD."""
    prompt = column(PROMPT)
    return _is_broken(name, lossy) & (prompt.contains(REPLACEMENT) | ~fn.is_valid_utf8(prompt))


def _is_broken(name: str, lossy: bool) -> Column:
    """Tell whether the column's bytes were no text; as source text, since cleaning could hide it."""
    text = column(name).cast("string")
    return text.contains(REPLACEMENT) if lossy else is_no_text(text)


def _lengths(job: Job) -> Iterable[tuple[Column, Column]]:
    rules = job.clean
    for name in sorted(set(rules.columns)):
        text = column(text_of(name))
        detail = fn.concat(fn.lit(f"{name}: "), fn.length(text), fn.lit(" characters"))
        yield fn.length(text) < rules.min_chars, reject(Reject.TOO_SHORT, detail)
        if rules.on_overlong == "reject":
            yield has_more_characters(text, rules), reject(Reject.TOO_LONG, detail)
            estimate = fn.concat(fn.lit(f"{name}: about "), tokens(text), fn.lit(" tokens"))
            yield has_more_tokens(text, rules), reject(Reject.TOO_LONG, estimate)


def _may_be_large(message: Message) -> Column:
    """Tell whether key and value may be over the limit: the id is in both, JSON makes six bytes of one at most."""
    own = sum((fn.coalesce(fn.octet_length(column(name)), fn.lit(0)) for name in (ID, MODEL, PROMPT)), fn.lit(0))
    return own > (MAX_MESSAGE_BYTES - message.shared_bytes) // 7


def _size(message: Message) -> Column:
    """Bytes of key and value; headers are none."""
    return fn.octet_length(column(ID)) + fn.octet_length(message.json)


def _too_large(message: Message) -> Column:
    return reject(
        Reject.MESSAGE_TOO_LARGE,
        fn.concat(_size(message), fn.lit(f" bytes, where {MAX_MESSAGE_BYTES} are allowed")),
    )


def _all(conditions: Iterable[Column]) -> Column:
    result = fn.lit(True)
    for condition in conditions:
        result &= condition
    return result
