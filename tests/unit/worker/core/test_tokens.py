"""What a call may take, whatever its message says of it."""

from __future__ import annotations

import pytest

from worker.core.amounts import at_most
from worker.core.tokens import MOST_TOKENS, Estimate, Size


@pytest.mark.parametrize("most", [10**20, 10**400])
def test_a_message_that_allows_absurdly_many_tokens_is_bounded_by_what_the_ledger_can_hold(most: int) -> None:
    size = Size.of(({"role": "user", "content": "Why?"},), {"max_tokens": most})
    assert at_most(None, Estimate(), size).tokens == MOST_TOKENS + 2 < 2**63
    assert Estimate().tokens(size, caution=1.0) == MOST_TOKENS + 2


def test_a_usual_bound_stands_as_it_is() -> None:
    size = Size.of(({"role": "user", "content": "Why?"},), {"max_completion_tokens": 128_000})
    assert at_most(None, Estimate(), size).tokens == 128_002
