"""Ledger H: every change of a result row, kept by triggers that only tests have; and faults the database raises."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import psycopg

_INSTALL = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.history (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
    job text, id text, old_status text, new_status text, old_fence bigint, new_fence bigint,
    old_fingerprint text, new_fingerprint text, old_offset bigint, new_offset bigint, worker text);
CREATE FUNCTION chaos.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.history (job, id, old_status, new_status, old_fence, new_fence, old_fingerprint,
        new_fingerprint, old_offset, new_offset, worker)
    VALUES (coalesce(NEW.job, OLD.job), coalesce(NEW.id, OLD.id), OLD.status, NEW.status, OLD.fence, NEW.fence,
        OLD.fingerprint, NEW.fingerprint, OLD.log_offset, NEW.log_offset, NEW.worker);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_insert AFTER INSERT OR DELETE ON headrace.results
    FOR EACH ROW EXECUTE FUNCTION chaos.note();
CREATE TRIGGER chaos_update AFTER UPDATE ON headrace.results FOR EACH ROW
    WHEN (OLD.status <> 'claimed' OR OLD.status <> NEW.status OR OLD.fence <> NEW.fence)
    EXECUTE FUNCTION chaos.note();
CREATE TABLE chaos.faults (state text, share float8, until timestamptz);
CREATE FUNCTION chaos.fail() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
    SELECT state INTO found FROM chaos.faults WHERE until > clock_timestamp() AND random() < share LIMIT 1;
    IF found IS NOT NULL AND current_setting('application_name') = 'headrace-worker' THEN
        RAISE EXCEPTION 'raised by a test' USING ERRCODE = found;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_fail BEFORE INSERT OR UPDATE ON headrace.results
    FOR EACH STATEMENT EXECUTE FUNCTION chaos.fail();
"""
_READ = """
SELECT at, id, old_status, new_status, coalesce(old_fence, 0), coalesce(new_fence, 0), old_fingerprint,
    new_fingerprint, old_offset, new_offset, worker
FROM chaos.history WHERE job = %s ORDER BY n
"""


@dataclass(frozen=True)
class Change:
    """One change of a row; `old_status` is None for its creation, `new_status` None for its end."""

    at: datetime
    id: str
    old_status: str | None
    new_status: str | None
    old_fence: int
    new_fence: int
    old_fingerprint: str | None
    new_fingerprint: str | None
    old_offset: int | None
    new_offset: int | None
    worker: str | None

    @property
    def of_finished(self) -> bool:
        """Whether the row had its end before."""
        return self.old_status not in (None, "claimed")

    @property
    def by_newer_version(self) -> bool:
        """Whether a later message with another request took the row's place: the only change an end may see."""
        later = (self.new_offset or 0) > (self.old_offset or 0)
        return self.new_status == "claimed" and self.old_fingerprint != self.new_fingerprint and later


def install(url: str) -> None:
    """Make the triggers in a migrated database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_INSTALL)


def read(url: str, job: str) -> list[Change]:
    """Every change of a job's rows, in order."""
    with psycopg.connect(url) as connection:
        return [Change(*row) for row in connection.execute(_READ, (job,))]


def raise_for(url: str, state: str, seconds: float, share: float = 1.0) -> None:
    """Let this share of the workers' statements that write results fail with an SQLSTATE for so long."""
    with psycopg.connect(url, autocommit=True) as connection:
        values = (state, share, seconds)
        connection.execute(
            "INSERT INTO chaos.faults VALUES (%s, %s, clock_timestamp() + make_interval(secs => %s))", values
        )
