"""What a job file may say and this producer does not carry out: refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from producer.arguments import Arguments
from producer.settings import ProducerSettings
from schemas import sources, template, topics
from schemas.job import Job
from schemas.settings import TopicSettings
from schemas.shaping import Clean
from schemas.text import clean_text


def problems(job: Job, arguments: Arguments, settings: ProducerSettings) -> list[str]:
    """Name every field that cannot be honoured, each with its place in the job file."""
    return [
        *_later(job),
        *sources.problems(job.source),
        *_clean(job.clean),
        *_request(job),
        *_topic(job, settings.topics),
        *(settings.catalog.problems(job) if settings.catalog else ()),
    ]


def _later(job: Job) -> Iterator[str]:
    if job.lane != "realtime":
        yield f"lane: {job.lane} is not carried out yet; use realtime"


def _clean(clean: Clean) -> Iterator[str]:
    rules = sorted(clean.model_fields_set - {"columns"})
    if rules and not clean.columns:
        yield f"clean.columns: names no column, so {', '.join(rules)} would do nothing"
    if "on_overlong" in clean.model_fields_set and not clean.has_limit:
        yield "clean.on_overlong: says nothing without max_chars or max_tokens"


def _request(job: Job) -> Iterator[str]:
    if job.prompt.system and (problem := _system(job.prompt.system)):
        yield f"prompt.system: {problem}"
    for number, route in enumerate(job.routes):
        if clean_text(route.model)[1]:
            yield f"routes.{number}.model: holds U+0000 or a broken surrogate pair"
        if route.escalate and clean_text(route.escalate.model)[1]:
            yield f"routes.{number}.escalate.model: holds U+0000 or a broken surrogate pair"


def _system(text: str) -> str | None:
    """System text is the same for every row: data of a row has no place in it."""
    try:
        named = template.columns(text)
    except ValueError as error:
        return str(error)
    if not text.strip():
        return "is blank; leave it out"
    if not named:
        return None
    return f"names {{{min(named)}}}: columns belong in prompt.template; write {{{{ and }}}} for literal braces"


def _topic(job: Job, names: TopicSettings) -> Iterator[str]:
    topic = job.prompts_topic
    if job.mode == "direct":
        if job.topic is not None:
            yield "topic: says nothing in mode direct, which publishes nothing; leave it out"
    elif topic == names.dead_letters:
        yield f"topic: {topic} is the topic of dead letters (DEAD_LETTER_TOPIC)"
    elif not topics.subscribes_to(names.prompts, topic):
        yield f"topic: no worker reads {topic}: PROMPTS_TOPIC is {names.prompts}"
