"""The table of requests beside the target: which request each row of the source asks, one folder a run.

Parquet, one row an id. The newest run that is complete is the one that counts: it shows by a file that comes last, as
Spark leaves one at the end of a write, so it does not matter whether a file system can rename a folder at once.
"""

from __future__ import annotations

from collections.abc import Iterable

ID = "id"
FINGERPRINT = "fingerprint"
# Whether the request is published under this very id; the other rows of the request wait for its answer.
ASKED = "asked"
# The number of the job's route that takes the row, counted from 0; -1 if none does.
ROUTE = "route"
# How many complete runs stay: what `headrace report --against` can look back on; a backfill may be reading the last
# but one. Each costs some 75 bytes a row.
KEPT_RUNS = 5
# How Parquet writes it: hardly any value stands there twice, so a dictionary would be built and thrown away.
WRITTEN = {f"parquet.enable.dictionary#{name}": "false" for name in (ID, FINGERPRINT)}

_RUN = "run="
# The file that Spark leaves at the end of a write.
COMPLETE = "_SUCCESS"


def address(target: str) -> str:
    """Name the folder of the table that belongs to a target, given the path that it is named after."""
    return f"{target.rstrip('/')}_requests"


def run_folder(run: str) -> str:
    """Name the folder of one run in the table; names sort as runs begin."""
    return f"{_RUN}{run}"


def run_of(folder: str) -> str:
    """Name the run whose folder this is."""
    return folder.removeprefix(_RUN)


def complete_runs(files: Iterable[str]) -> list[str]:
    """Find the folders of complete runs among files, whose paths start at the table; the newest is the last."""
    parts = [file.split("/") for file in files]
    return sorted(names[0] for names in parts if names[0].startswith(_RUN) and names[1:] == [COMPLETE])
