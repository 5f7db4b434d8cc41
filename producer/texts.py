"""Cleaning of text as column expressions: no row ever leaves the JVM for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as fn

from schemas.job import Clean
from schemas.text import REPLACEMENT

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
# Spark has no function for either; both are static methods of libraries that Spark itself ships.
_NORMALIZER = "com.ibm.icu.text.Normalizer"
_UNESCAPER = "org.apache.commons.text.StringEscapeUtils"


def sendable(text: Column) -> Column:
    """Replace U+0000 by U+FFFD: the rule of `schemas.text.clean_text` for text that is valid UTF-8."""
    # Looking for one byte is much faster than replacing it, and hardly any text has it.
    return fn.when(text.contains("\0"), fn.replace(text, fn.lit("\0"), fn.lit(REPLACEMENT))).otherwise(text)


def has_outer_space(text: Column) -> Column:
    """Tell whether text begins or ends with white space; true of empty text too."""
    first, last = fn.left(text, fn.lit(1)), fn.right(text, fn.lit(1))
    return fn.lit(WHITE_SPACE).contains(first) | fn.lit(WHITE_SPACE).contains(last)


def is_blank(text: Column) -> Column:
    """Tell whether nothing but white space is there; of most texts the first character tells."""
    begins_blank = fn.lit(WHITE_SPACE).contains(fn.left(text, fn.lit(1)))
    return fn.when(begins_blank, fn.btrim(text, fn.lit(WHITE_SPACE)) == "").otherwise(False)


def cleaning(rules: Clean) -> list[Step]:
    """Name the steps of the job file in their order: HTML, Unicode form, white space.

    Each step names its text several times, so it must be a column of its own before the next step: as one
    expression they would multiply.
    """
    steps: list[Step] = []
    if rules.strip_html:
        steps += [*map(_removed, _HTML), _unescaped, sendable]
    if rules.normalize:
        steps.append(partial(_normalized, form=rules.normalize))
    if rules.collapse_whitespace:
        steps.append(_collapsed)
    return steps


def cut(text: Column, rules: Clean) -> Column:
    """Cut to `max_chars` code points if the job file says so; a surrogate pair is never split."""
    if rules.max_chars is None or rules.on_overlong != "truncate":
        return text
    return fn.substring(text, 1, rules.max_chars)


def is_overlong(text: Column, rules: Clean) -> Column:
    """Tell whether text has more than `max_chars` code points."""
    return fn.lit(False) if rules.max_chars is None else fn.length(text) > rules.max_chars


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
