"""What is to be thought of what the brokers say."""

from __future__ import annotations

from collections.abc import Iterator

from control.doctor.finding import Finding, ok, warn, wrong
from control.doctor.kafka import KafkaFacts

_SHOWN = 5


def judge(facts: KafkaFacts, subscription: str, dead_letters: str, group: str, workers: int | None) -> list[Finding]:
    """Judge topics and group; `workers` are those alive, None if the database did not tell."""
    about = f"group {group}"
    findings = [ok("kafka", f"{facts.servers} answers")]
    findings += _dead_letters(facts, dead_letters)
    findings += _prompts(facts, subscription, workers)
    findings += _members(facts, about, workers)
    findings += _lag(facts, about)
    step = "ask for the right to describe it, or look with an account that may"
    findings += [warn("kafka", f"did not tell: {said}", step) for said in facts.untold]
    return findings


def _dead_letters(facts: KafkaFacts, name: str) -> Iterator[Finding]:
    about = f"topic {name}"
    if name not in facts.partitions:
        yield wrong(about, "is not there: unreadable messages have no place to go", "run `headrace topics`")
    elif "compact" in facts.policies.get(name, ""):
        yield warn(about, "is compacted: letters of one key replace each other", "set cleanup.policy=delete")
    else:
        yield ok(about, "dead letters go here")


def _prompts(facts: KafkaFacts, subscription: str, workers: int | None) -> Iterator[Finding]:
    about = f"topics {subscription}"
    if not facts.prompts:
        yield warn(about, "there is none", "run a producer, or `headrace topics JOB`")
        return
    for name in facts.prompts:
        if "compact" in facts.policies.get(name, ""):
            yield wrong(
                f"topic {name}", "is compacted: it loses prompts, producers refuse it", "set cleanup.policy=delete"
            )
    counts = [facts.partitions[name] for name in facts.prompts]
    few = [name for name in facts.prompts if facts.partitions[name] < (workers or 0)]
    if few:
        named = ", ".join(few[:_SHOWN]) + (f" and {len(few) - _SHOWN} more" if len(few) > _SHOWN else "")
        said = f"fewer partitions than the {workers} workers alive, some cannot help: {named}"
        yield warn(about, said, "add partitions between two runs, or run fewer workers")
    else:
        each = str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        yield ok(about, f"topics: {len(counts)}, partitions each: {each}")


def _members(facts: KafkaFacts, about: str, workers: int | None) -> Iterator[Finding]:
    groups = facts.groups
    if groups is None:
        return
    if groups.members:
        yield ok(about, f"members: {groups.members}")
    elif workers:
        said = f"nobody is in it, yet workers alive: {workers}"
        yield warn(about, said, "give the workers and this command the same CONSUMER_GROUP")
    else:
        said = "nobody is in it" if groups.known else "is not known: nobody has read with it"
        yield warn(about, said, "start a worker: python -m worker")
    for other in groups.others:
        said = "reads the prompts too: each is still asked once, but every message is read twice"
        yield warn(f"group {other}", said, "give all workers one CONSUMER_GROUP")


def _lag(facts: KafkaFacts, about: str) -> Iterator[Finding]:
    if facts.lag:
        behind = sum(part.lag for part in facts.lag)
        at = sum(part.lag > 0 for part in facts.lag)
        yield ok(about, f"lag {behind:,}" + (f" in {at} of {len(facts.lag)} partitions" if behind else ""))
