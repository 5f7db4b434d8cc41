"""What has to be there before anything is read or published, told before Spark starts."""

from __future__ import annotations

import time
from collections.abc import Callable

from producer.errors import UnreachableError, WrongJobError
from producer.voice import say
from producer.watch import SEEN_SECONDS, Watch
from schemas.database import REVISION

# From the first look until a run without workers ends: time enough for a fleet that is being started.
PATIENCE_SECONDS = 15.0
_LOOK_SECONDS = 1.0
_NOBODY = (
    f"no worker is running: none was seen in the last {SEEN_SECONDS} s. Start one (`python -m worker`, or "
    "`docker compose up worker`), or publish without a canary: --no-canary"
)


def check_revision(found: str | None) -> None:
    """Raise `WrongJobError` unless the tables are at our revision, or at a newer one, which only adds."""
    if found is None or found < REVISION:
        raise WrongJobError(
            f"database: its schema is at revision {found or 'none'}, {REVISION} is needed; run `headrace migrate`"
        )


def look_for_workers(watch: Watch) -> int:
    """Count the workers that live, and say at once when there are none."""
    if not (workers := watch.workers()):
        say(f"{_NOBODY}. Waiting {PATIENCE_SECONDS:.0f} s for one")
    return workers


def wait_for_workers(
    watch: Watch,
    since: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait for the first worker until `since` is so long ago; raises `UnreachableError` when none comes."""
    while not watch.workers():
        if clock() - since >= PATIENCE_SECONDS:
            raise UnreachableError(f"{_NOBODY}. Nothing was published")
        sleep(_LOOK_SECONDS)
