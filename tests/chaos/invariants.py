"""The invariants I1 to I8, checked over the ledgers by one function that answers with numbers."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.chaos.ledgers import Fault, Ledgers

# I6: what one worker may use at the most. Its buffers alone may hold 48 MiB; the bodies of a test are small.
MOST_RSS_MB = 320.0
MOST_FDS = 400
MOST_THREADS = 64
# I5: a rate is taken over so many seconds, and back when it is nine tenths of what it was.
_WINDOW_SECONDS = 5.0
_BACK = 0.9


@dataclass
class Report:
    """The numbers of one run, and every broken invariant in words."""

    planned: int = 0
    published: int = 0
    finished: int = 0
    missing: int = 0
    unexpected: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    double: int = 0
    wrong_answers: int = 0
    changed_answers: int = 0
    paid_calls: int = 0
    extra_paid_calls: int = 0
    paid_faults: int = 0
    halts: dict[str, int] = field(default_factory=dict)
    kills: list[int] = field(default_factory=list)
    open_at_kills: list[int] = field(default_factory=list)
    maybe_attempts: int = 0
    extra_not_on_record: int = 0
    samples: int = 0
    late_samples: int = 0
    early_commits: int = 0
    resumed_after: dict[str, float | None] = field(default_factory=dict)
    back_after: dict[str, float | None] = field(default_factory=dict)
    peak_rss_mb: float = 0.0
    peak_fds: int = 0
    peak_threads: int = 0
    canary_hits: int = 0
    searched: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        """All of it as one line of JSON."""
        return json.dumps(asdict(self))


def check(ledgers: Ledgers) -> Report:
    """Compare the ledgers; the report's `problems` name each invariant that does not hold."""
    report = Report(planned=ledgers.planned, published=len(ledgers.manifest.acked))
    steps = (_nothing_lost, _one_result, _bounded_bill, _commits, _recovery, _bounded_use, _canaries, _not_vacuous)
    for step in steps:
        report.problems += step(ledgers, report)
    return report


def _nothing_lost(ledgers: Ledgers, report: Report) -> Iterator[str]:
    finished = {row["id"] for row in ledgers.results if row["status"] != "claimed"}
    present = {row["id"] for row in ledgers.results}
    missing, unexpected = ledgers.manifest.ids - finished, present - ledgers.manifest.ids
    report.finished, report.missing, report.unexpected = len(finished), len(missing), len(unexpected)
    for row in ledgers.results:
        if row["status"] == "failed":
            report.failed[row["reason"]] = report.failed.get(row["reason"], 0) + 1
    if missing or unexpected:
        yield f"I1: {len(missing)} ids without an end ({_some(missing)}), {len(unexpected)} nobody published"
    report.dead_letters = len(ledgers.letters)
    buried = {_place(headers) for headers in ledgers.letters}
    wanted = {message.place for message in ledgers.manifest.unreadable}
    if wanted != buried:
        yield f"I1: {len(wanted - buried)} unreadable messages without a letter, {len(buried - wanted)} too many"


def _place(headers: Mapping[str, bytes | None]) -> tuple[int, int]:
    partition, offset = (headers.get(f"__connect.errors.{name}") or b"-1" for name in ("partition", "offset"))
    return int(partition), int(offset)


def _one_result(ledgers: Ledgers, report: Report) -> Iterator[str]:
    report.double = len(ledgers.results) - len({row["id"] for row in ledgers.results})
    if report.double:
        yield f"I2: {report.double} rows more than ids"
    latest = {id_: found[-1] for id_, found in ledgers.manifest.versions().items()}
    wrong = [row["id"] for row in ledgers.results if row["id"] in latest and not _fits(row, latest[row["id"]])]
    report.wrong_answers = len(wrong)
    if wrong:
        yield f"I2: {len(wrong)} rows do not hold the answer to their latest version ({_some(wrong)})"
    changed = [change.id for change in ledgers.history if change.of_finished and not change.by_newer_version]
    report.changed_answers = len(changed)
    if changed:
        yield f"I2: {len(changed)} ends changed afterwards ({_some(changed)})"


def _fits(row: Any, message: Any) -> bool:
    same = bool(row["fingerprint"] == message.fingerprint)
    return same and (row["status"] != "succeeded" or row["result"] == message.answer)


def _bounded_bill(ledgers: Ledgers, report: Report) -> Iterator[str]:
    lossy = ledgers.lossy_halts
    report.paid_calls = sum(ledgers.bills.values())
    report.extra_paid_calls = extra = sum(ledgers.extra.values())
    report.paid_faults = ledgers.paid_faults
    report.halts = dict(Counter(halt.how for halt in ledgers.halts))
    report.kills = [halt.in_flight for halt in lossy]
    report.open_at_kills = [ledgers.open_calls(halt) for halt in lossy]
    report.maybe_attempts = sum(ledgers.maybes.values())
    bound = sum(report.open_at_kills) + ledgers.paid_faults
    if extra > bound:
        yield f"I3: {extra} extra paid calls, of which kills and spoiled answers explain {bound}"
    unrecorded = {id_: bills - ledgers.on_record[id_] for id_, bills in ledgers.bills.items()}
    report.extra_not_on_record = sum(count for count in unrecorded.values() if count > 0)
    if report.extra_not_on_record:
        ids = [id_ for id_, count in unrecorded.items() if count > 0]
        yield f"I3: {report.extra_not_on_record} paid calls stand in no line of attempts ({_some(ids)})"


def _commits(ledgers: Ledgers, report: Report) -> Iterator[str]:
    samples = ledgers.samples
    report.samples, report.late_samples, report.early_commits = samples.taken, samples.late, len(samples.early)
    if samples.early:
        yield f"I4: {len(samples.early)} offsets committed before their end ({_some(samples.early)})"
    if samples.checked < len(ledgers.manifest.acked):
        yield f"I4: only {samples.checked} of {len(ledgers.manifest.acked)} messages were seen committed"


def _recovery(ledgers: Ledgers, report: Report) -> Iterator[str]:
    """Only measured here: how soon is soon enough is each scenario's word."""
    ends = [end.timestamp() for end in ledgers.ends()]
    for fault in ledgers.faults:
        after = ends[bisect_right(ends, fault.ended) :]
        report.resumed_after[fault.name] = round(after[0] - fault.ended, 1) if after else None
        report.back_after[fault.name] = _back_after(ends, fault)
    yield from ()


def _back_after(ends: list[float], fault: Fault) -> float | None:
    """Seconds until the rate of a window is nine tenths of what it was before the fault; None if it never is."""
    before = [end for end in ends if end < fault.began]
    if len(before) < 2 or before[-1] == before[0]:
        return None
    wanted = _BACK * len(before) / (fault.began - before[0]) * _WINDOW_SECONDS
    for start in (end for end in ends if end >= fault.ended):
        if bisect_right(ends, start + _WINDOW_SECONDS) - bisect_right(ends, start) >= wanted:
            return round(start - fault.ended, 1)
    return None


def _bounded_use(ledgers: Ledgers, report: Report) -> Iterator[str]:
    samples = ledgers.samples
    report.peak_rss_mb, report.peak_fds = samples.peak_rss_mb, samples.peak_fds
    report.peak_threads = samples.peak_threads
    if samples.peak_rss_mb > MOST_RSS_MB or samples.peak_fds > MOST_FDS or samples.peak_threads > MOST_THREADS:
        yield f"I6: {samples.peak_rss_mb} MB, {samples.peak_fds} files, {samples.peak_threads} threads in one worker"


def _canaries(ledgers: Ledgers, report: Report) -> Iterator[str]:
    report.canary_hits, report.searched = len(ledgers.canary_hits), dict(ledgers.searched)
    if ledgers.canary_hits:
        yield f"I7: secrets or prompts shown: {_some(ledgers.canary_hits)}"
    if empty := [place for place in ("log of worker", "table results") if not ledgers.searched.get(place)]:
        yield f"I7: nothing to look through: {_some(empty)}"


def _not_vacuous(ledgers: Ledgers, report: Report) -> Iterator[str]:
    if report.finished < ledgers.planned or not ledgers.calls or not ledgers.samples.taken:
        yield f"I8: {report.finished} of {ledgers.planned} planned and {len(ledgers.calls)} calls show nothing"


def _some(items: Any) -> str:
    return ", ".join(sorted(map(str, items))[:5])
