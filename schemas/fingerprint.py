"""The fingerprint of a request: what makes two prompts the same question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from schemas.text import sorted_json

DEFAULT_ALIAS = "default"


def fingerprint(
    model: str | None,
    messages: Iterable[Mapping[str, Any]],
    params: Mapping[str, Any] | None = None,
    response_format: Mapping[str, Any] | None = None,
) -> str:
    """Hash what shapes a request into 64 hex digits.

    The SHA-256 of the SHA-256 hex digests, joined by `:`, of the alias (`default` if there is none), of role and
    content of each message, of `params` and of `response_format` as sorted compact JSON (`null` if absent).
    It needs no JSON escaping of the text, so Spark SQL computes the same value.
    """
    parts = [model or DEFAULT_ALIAS]
    for message in messages:
        content = message["content"]
        parts += [message["role"], content if isinstance(content, str) else sorted_json(content)]
    parts += [sorted_json(params or None), sorted_json(response_format or None)]
    return _digest(":".join(map(_digest, parts)))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
