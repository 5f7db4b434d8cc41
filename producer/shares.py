"""How many rows a canary tries of each route. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence


def spread(sizes: Sequence[int], most: int) -> list[int]:
    """Share out the rows to try: half of them evenly over the tiers, half by size, and no tier more than it has.

    The sum is `most`, or all rows if there are fewer; each tier that has rows gets one if there are enough.
    """
    most, given = min(most, sum(sizes)), [0] * len(sizes)
    filled = [number for number, size in enumerate(sizes) if size]
    while left := most - sum(given):
        open_ = [number for number in filled if given[number] < sizes[number]]
        weight = sum(sizes[number] for number in open_)
        for number in open_:
            share = left / 2 / len(open_) + left / 2 * sizes[number] / weight
            given[number] += min(int(share), sizes[number] - given[number])
        if most - sum(given) == left:
            # Less than one each: the smallest tiers first, which have the fewest.
            for number in sorted(open_, key=lambda number: (given[number], sizes[number]))[:left]:
                given[number] += 1
    return _none_left_out(given, filled, most)


def _none_left_out(given: list[int], filled: list[int], most: int) -> list[int]:
    """Let the richest tier give one to each that has got none, if there are enough."""
    for number in filled if most >= len(filled) else []:
        if not given[number]:
            given[max(filled, key=given.__getitem__)] -= 1
            given[number] = 1
    return given
