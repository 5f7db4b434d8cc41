"""Cleaning of text as column expressions: no row ever leaves the JVM for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as fn

from schemas.shaping import Clean
from schemas.text import REPLACEMENT
from schemas.tokens import BYTES_A_TOKEN, most_bytes

Step = Callable[[Column], Column]

# What `str.strip` takes off, so that Spark and the reader of the message agree on blank and surrounding space.
WHITE_SPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_WHITE_SPACE_RUN = "[" + "".join(f"\\u{ord(char):04x}" for char in WHITE_SPACE) + "]+"
# What a browser does not show; one that is never closed hides the rest, there as here.
_HIDDEN = r"(?is)<!--.*?(?:-->|\z)|<(script|style)\b.*?(?:</\1\s*>|\z)"
_LINE_BREAKS = r"(?i)<br\s*/?>|</(?:p|div|li|tr|h[1-6]|blockquote)\s*>"
_TAGS = r"(?i)</?[a-z!?][^<>]*>"
# Tags go before entities are read, so that an escaped tag stays as text.
_HTML = ((_HIDDEN, ""), (_LINE_BREAKS, "\n"), (_TAGS, ""))
# Control characters: those that Python counts as white space part words, the others part nothing.
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
_PARTING = r"[\x0b\x0c\x1c-\x1f\x85]"
# Spark has no function for either; both are static methods of libraries that Spark itself ships.
_NORMALIZER = "com.ibm.icu.text.Normalizer"
_UNESCAPER = "org.apache.commons.text.StringEscapeUtils"


def sendable(text: Column) -> Column:
    """Replace U+0000 by U+FFFD: the rule of `schemas.text.clean_text` for text that is valid UTF-8."""
    # Hardly any text has it, and a byte is found faster among bytes than in text.
    has_it = fn.contains(text.cast("binary"), fn.lit(b"\0"))
    return fn.when(has_it, fn.replace(text, fn.lit("\0"), fn.lit(REPLACEMENT))).otherwise(text)


def is_no_text(text: Column) -> Column:
    """Tell whether bytes that stand for text are no UTF-8.

    Java reads such bytes as U+FFFD, which it looks for many bytes at a time, where Spark's own check takes them one
    by one: that is left for the few texts in which U+FFFD is found.
    """
    return (fn.size(fn.split(text, REPLACEMENT, 2)) > 1) & ~fn.is_valid_utf8(text)


def has_outer_space(text: Column) -> Column:
    """Tell whether text begins or ends with white space; true of empty text too."""
    first, last = fn.left(text, fn.lit(1)), fn.right(text, fn.lit(1))
    return fn.lit(WHITE_SPACE).contains(first) | fn.lit(WHITE_SPACE).contains(last)


def is_blank(text: Column) -> Column:
    """Tell whether nothing but white space is there; of most texts the first character tells."""
    begins_blank = fn.lit(WHITE_SPACE).contains(fn.left(text, fn.lit(1)))
    return fn.when(begins_blank, fn.btrim(text, fn.lit(WHITE_SPACE)) == "").otherwise(False)


def cleaning(rules: Clean) -> list[Step]:
    """Name the steps of the job file in their order: HTML, control characters, Unicode form, white space.

    Each step names its text several times, so it must be a column of its own before the next step: as one
    expression they would multiply.
    """
    steps: list[Step] = []
    if rules.strip_html:
        steps += [*map(_removed, _HTML), _unescaped]
    if rules.strip_control:
        steps.append(_uncontrolled)
    elif rules.strip_html:
        steps.append(sendable)
    if rules.normalize:
        steps.append(partial(_normalized, form=rules.normalize))
    if rules.collapse_whitespace:
        steps.append(_collapsed)
    return steps


def cutting(rules: Clean) -> list[Step]:
    """Name the steps that cut text to `max_chars` code points and `max_tokens`, if the job file says so.

    No code point is ever split.
    """
    if rules.on_overlong != "truncate":
        return []
    by_chars = [partial(fn.substring, pos=1, len=rules.max_chars)] if rules.max_chars else []
    return [*by_chars, *([partial(_cut_to_bytes, most=most_bytes(rules.max_tokens))] if rules.max_tokens else [])]


def has_more_characters(text: Column, rules: Clean) -> Column:
    """Tell whether text has more than `max_chars` code points."""
    return fn.lit(False) if rules.max_chars is None else fn.length(text) > rules.max_chars


def has_more_tokens(text: Column, rules: Clean) -> Column:
    """Tell whether text is estimated to have more than `max_tokens` tokens."""
    return fn.lit(False) if rules.max_tokens is None else fn.octet_length(text) > most_bytes(rules.max_tokens)


def tokens(text: Column) -> Column:
    """Compute `schemas.tokens.estimated_tokens` of a text."""
    return (1 + fn.bround(fn.octet_length(text) / BYTES_A_TOKEN)).cast("long")


def script_share(text: Column, scripts: Sequence[str]) -> Column:
    """Compute which share of a text's letters is of these scripts, 0 to 1; null of a text without letters."""
    letters = fn.regexp_replace(text, r"\P{L}+", "")
    others = "".join(rf"\p{{Is{script}}}" for script in scripts)
    wanted = fn.regexp_replace(letters, f"[^{others}]+", "")
    return fn.length(wanted) / fn.nullif(fn.length(letters), fn.lit(0))


def _cut_to_bytes(text: Column, most: int) -> Column:
    """Keep the code points that lie within so many bytes: the first byte cut off must begin one."""
    encoded = text.cast("binary")

    def begins_none(after: int) -> Column:
        return fn.hex(fn.substring(encoded, after + 1, 1)).between("80", "BF")

    size = fn.when(~begins_none(most), most)
    for less in (1, 2):
        size = size.when(~begins_none(most - less), max(most - less, 0))
    kept = fn.substr(encoded, fn.lit(1), size.otherwise(max(most - 3, 0))).cast("string")
    return fn.when(fn.octet_length(text) > most, kept).otherwise(text)


def _uncontrolled(text: Column) -> Column:
    parted = fn.regexp_replace(fn.regexp_replace(text, _PARTING, " "), _CONTROL, "")
    return fn.when(text.rlike(_CONTROL), parted).otherwise(text)


def _removed(markup: tuple[str, str]) -> Step:
    pattern, instead = markup

    def remove(text: Column) -> Column:
        return fn.when(text.contains("<"), fn.regexp_replace(text, pattern, instead)).otherwise(text)

    return remove


def _unescaped(text: Column) -> Column:
    """Read entities; one that names no character makes the method throw, and then the text stays as it is."""
    read = fn.try_reflect(fn.lit(_UNESCAPER), fn.lit("unescapeHtml4"), text)
    return fn.when(text.contains("&"), fn.coalesce(read, text)).otherwise(text)


def _normalized(text: Column, form: str) -> Column:
    method = "compose" if form.endswith("C") else "decompose"
    applied = fn.reflect(fn.lit(_NORMALIZER), fn.lit(method), text, fn.lit(form.startswith("NFK")))
    # ASCII is its own normal form, in all four of them.
    return fn.when(text.isNull() | (fn.octet_length(text) == fn.length(text)), text).otherwise(applied)


def _collapsed(text: Column) -> Column:
    return fn.btrim(fn.regexp_replace(text, _WHITE_SPACE_RUN, " "))
