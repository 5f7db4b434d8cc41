"""How large a prompt can be, as far as the job file alone says. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemas import template
from schemas.estimate import FEWEST_BYTES, MOST_BYTES, Range, max_tokens
from schemas.examples import Example
from schemas.job import Job
from schemas.models import Price
from schemas.tokens import most_bytes

# A code point of UTF-8 at most, and the two tags around a fenced column.
_CHARACTER_BYTES, _FENCE_BYTES = 4, 200


def prompt_bytes(job: Job, examples: Sequence[Example]) -> tuple[int, int | None]:
    """Give the fewest and the most bytes of UTF-8 of one prompt; nobody knows the most where a column has no limit.

    The fewest are the text that all prompts share; limits are `clean.max_chars` and `clean.max_tokens`.
    """
    prompt = job.prompt
    shown = sum(len(text.encode()) for example in examples for text in (example.user, example.assistant))
    shared = _literals(prompt.system or "") + shown
    if prompt.messages:
        sizes = [_sum(_size(job, message.content) for message in prompt.messages)]
    else:
        own = [route.template for route in job.routes if route.template]
        sizes = [_size(job, text) for text in [prompt.template or "", *own]]
    most = [high for _, high in sizes]
    fewest = shared + min(low for low, _ in sizes)
    return fewest, None if None in most else shared + max(high for high in most if high is not None)


def tokens(rows: int, job: Job, examples: Sequence[Example]) -> tuple[Range, Range]:
    """Bound the tokens of so many prompts, and of their answers; a point between the bounds means nothing."""
    low, high = prompt_bytes(job, examples)
    longest = max_tokens(job.params)
    fewest, most = rows * low / MOST_BYTES, None if high is None else rows * high / FEWEST_BYTES
    asked = Range(fewest, fewest, most)
    return asked, Range(0, 0, None if longest is None else float(rows * longest))


def usd(asked: Range, answered: Range, prices: Iterable[Price | None]) -> Range | None:
    """Bound the cost: all rows at the cheapest model, and all at the dearest; None while a price is unknown."""
    each = list(prices)
    known = [(float(price.input_per_million), float(price.output_per_million)) for price in each if price]
    if not known or len(known) < len(each):
        return None
    low = min(asked.low * of_prompt + answered.low * of_answer for of_prompt, of_answer in known) / 1e6
    if asked.high is None or answered.high is None:
        return Range(low, low, None)
    high = max(asked.high * of_prompt + answered.high * of_answer for of_prompt, of_answer in known) / 1e6
    return Range(low, low, high)


def _size(job: Job, text: str) -> tuple[int, int | None]:
    columns = [part.name for part in template.parse(text) if isinstance(part, template.Column)]
    fixed = _literals(text)
    limits = [_limit(job, name) for name in columns]
    known = [limit for limit in limits if limit is not None]
    return fixed, fixed + sum(known) if len(known) == len(limits) else None


def _limit(job: Job, name: str) -> int | None:
    clean = job.clean
    if name not in clean.columns or not clean.has_limit:
        return None
    by_chars = [clean.max_chars * _CHARACTER_BYTES] if clean.max_chars is not None else []
    by_tokens = [most_bytes(clean.max_tokens)] if clean.max_tokens is not None else []
    return min(by_chars + by_tokens) + (_FENCE_BYTES if name in job.prompt.fence else 0)


def _literals(text: str) -> int:
    return sum(len(part.text.encode()) for part in template.parse(text) if isinstance(part, template.Literal))


def _sum(sizes: Iterable[tuple[int, int | None]]) -> tuple[int, int | None]:
    low, high = 0, 0
    unknown = False
    for fewest, most in sizes:
        low += fewest
        high += most or 0
        unknown |= most is None
    return low, None if unknown else high
