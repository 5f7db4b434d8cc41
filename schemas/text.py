"""Text that every later station accepts: what Postgres and UTF-8 refuse is replaced by a written rule."""

from __future__ import annotations

import json
import math
import re
from typing import Any

REPLACEMENT = "\ufffd"
# U+0000 is refused by Postgres, halves of a broken surrogate pair by UTF-8.
_REFUSED = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> tuple[str, bool]:
    """Replace U+0000 and each half of a broken surrogate pair by U+FFFD; say whether anything was replaced."""
    if "\x00" not in text and _encodes(text):
        return text, False
    cleaned = _REFUSED.sub(REPLACEMENT, text)
    return cleaned, cleaned != text


def clean_json(value: Any) -> tuple[Any, bool]:
    """Clean every string and key of a JSON value and turn NaN and infinities into null; say whether it changed."""
    match value:
        case str():
            return clean_text(value)
        case float():
            return (value, False) if math.isfinite(value) else (None, True)
        case list() | tuple():
            items = [clean_json(item) for item in value]
            return [item for item, _ in items], any(changed for _, changed in items)
        case dict():
            pairs = [(clean_text(str(key)), clean_json(item)) for key, item in value.items()]
            changed = any(key_changed or item_changed for (_, key_changed), (_, item_changed) in pairs)
            return {key: item for (key, _), (item, _) in pairs}, changed
    return value, False


def is_json(value: Any) -> bool:
    """Tell whether a value, of YAML say, is one that JSON can spell and everybody reads back the same."""
    match value:
        case None | str() | bool() | int():
            return True
        case float():
            return math.isfinite(value)
        case list():
            return all(map(is_json, value))
        case dict():
            return all(isinstance(key, str) and is_json(item) for key, item in value.items())
    return False


def sorted_json(value: Any) -> str:
    """Compact JSON with sorted keys and unescaped UTF-8: the form that fingerprints are taken of."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _encodes(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
