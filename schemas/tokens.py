"""How many tokens a text is likely to have before any server has counted it: one rule for producer and worker."""

from __future__ import annotations

# About right for most tokenizers: English has 4 to 5 bytes a token, Chinese, with 3 bytes a character, 2.5 to 4.5.
BYTES_A_TOKEN = 4.0


def estimated_tokens(size: int, bytes_a_token: float = BYTES_A_TOKEN) -> int:
    """Estimate the tokens of a text of so many bytes of UTF-8; half a token goes to the even neighbour."""
    return 1 + round(size / bytes_a_token)


def most_bytes(tokens: int) -> int:
    """Tell the size of the longest text that is estimated to have at most so many tokens; of fewer than 1 there is
    none."""
    size = int((tokens - 1) * BYTES_A_TOKEN)
    while estimated_tokens(size + 1) <= tokens:
        size += 1
    return size
