"""What is to be thought of what Postgres says."""

from __future__ import annotations

from collections.abc import Iterator

from control.doctor.database import DatabaseFacts
from control.doctor.finding import Finding, missettled, ok, warn, wrong
from schemas.database import REVISION

_CLOCK_SECONDS = 5.0
_MIGRATE = "run `headrace migrate`"


def judge(facts: DatabaseFacts) -> list[Finding]:
    """Judge tables, rights, clock, workers and circuits."""
    findings = [ok("postgres", f"answers, version {facts.version}"), _clock(facts)]
    if facts.may_use is None:
        return [*findings, missettled("postgres", "holds no tables of ours", _MIGRATE)]
    if not facts.may_use:
        said = f"user {facts.user} may not use the schema headrace"
        return [*findings, wrong("postgres", said, f"as its owner: {_grant(facts)}")]
    findings += [*_revision(facts), *_rights(facts), *_workers(facts), *_circuits(facts)]
    step = "use a user who may read our tables, and " + _MIGRATE
    return [*findings, *(warn("postgres", f"did not tell: {said}", step) for said in facts.untold)]


def _clock(facts: DatabaseFacts) -> Finding:
    seconds = facts.ahead_seconds
    said = f"its clock is {abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} this machine's"
    if abs(seconds) > _CLOCK_SECONDS:
        return warn("clock", said, "keep all clocks by NTP; leases go by the database's")
    return ok("clock", said)


def _revision(facts: DatabaseFacts) -> Iterator[Finding]:
    if facts.untold and facts.revision is None:
        return
    if facts.revision is None or facts.revision < REVISION:
        said = f"tables are at revision {facts.revision or 'none'}, {REVISION} is needed"
        yield missettled("postgres", said, _MIGRATE)
    elif facts.revision > REVISION:
        said = f"tables are at revision {facts.revision}, this release knows {REVISION}"
        yield missettled("postgres", said, "deploy a newer release")
    else:
        yield ok("postgres", f"tables are at the newest revision, {REVISION}")


def _rights(facts: DatabaseFacts) -> Iterator[Finding]:
    if facts.missing:
        said = f"user {facts.user} may not {', '.join(facts.missing)} headrace.results"
        yield wrong("postgres", said, f"as its owner: {_grant(facts)}")
    elif facts.missing is not None:
        yield ok("postgres", f"user {facts.user} may SELECT, INSERT and UPDATE results")


def _grant(facts: DatabaseFacts) -> str:
    return f"GRANT headrace_worker TO {facts.user}"


def _workers(facts: DatabaseFacts) -> Iterator[Finding]:
    if facts.workers:
        calls = sum(worker["in_flight"] for worker in facts.workers)
        yield ok("workers", f"seen in the last minute: {len(facts.workers)}, calls open: {calls}")
    elif facts.workers is not None:
        yield warn("workers", "none was seen in the last minute", "start one: python -m worker")


def _circuits(facts: DatabaseFacts) -> Iterator[Finding]:
    for circuit in facts.circuits or ():
        why = circuit["reason"] or "no reason told"
        since = circuit["opened_at"].isoformat(timespec="seconds")
        said = f"open since {since}: {why}; its rows wait"
        yield wrong(f"circuit {circuit['endpoint']}", said, "mend the cause; workers probe, and go on by themselves")
    if facts.circuits is not None and not facts.circuits:
        yield ok("circuits", "none is open")
