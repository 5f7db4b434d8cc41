"""What the doctor thinks of each state, which exit code it makes, and that it repeats no key: as tables."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from rich.console import Console

from control.doctor import database_verdicts, job, kafka_verdicts, showing
from control.doctor.database import DatabaseFacts
from control.doctor.endpoint_verdicts import asked, listed
from control.doctor.endpoints import Answer, Broken
from control.doctor.finding import Finding, Level, away, exit_code, missettled, ok, warn, wrong
from control.doctor.kafka import Groups, KafkaFacts
from control.doctor.settings import Server, read
from control.status.document import Lag
from schemas.database import REVISION
from schemas.statuses import ExitCode

KEY = "sk-canary-0123456789"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SERVER = Server("small", "http://llm/v1", "qwen", "VLLM_KEY", SecretStr(KEY))
LISTS: Answer | Broken = Answer(200, 0.1, {"data": [{"id": "qwen"}]})
COMPLETION: dict[str, Any] = {
    "choices": [{}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2},
    "model": "qwen-2",
}


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], 0),
        ([ok("a", "b"), warn("a", "b", "c")], 0),
        ([wrong("a", "b", "c"), ok("a", "b")], 1),
        ([wrong("a", "b", "c"), away("a", "b", "c")], 4),
        ([away("a", "b", "c"), missettled("a", "b", "c"), wrong("a", "b", "c")], 2),
    ],
)
def test_the_worst_finding_makes_the_exit_code(findings: list[Finding], code: int) -> None:
    assert exit_code(findings) == code


@pytest.mark.parametrize(
    ("answer", "level", "code", "says"),
    [
        (LISTS, Level.OK, 0, "lists model qwen"),
        (Answer(200, 0.1, [{"id": "qwen"}]), Level.OK, 0, "lists model qwen"),
        (Answer(200, 0.1, {"data": [{"id": "other"}, 7, {}]}), Level.WARN, 0, "does not list model qwen"),
        (Answer(200, 0.1, None), Level.WARN, 0, "no list of models"),
        (Answer(401, 0.1, {"error": KEY}), Level.FAIL, 1, "refuses its key (401)"),
        (Answer(403, 0.1, None), Level.FAIL, 1, "refuses its key (403)"),
        (Answer(404, 0.1, None), Level.WARN, 0, "has no list of models (404)"),
        (Answer(307, 0.1, None), Level.FAIL, 1, "redirects (307)"),
        (Answer(429, 0.1, None), Level.WARN, 0, "limit or a quota"),
        (Answer(503, 0.1, None), Level.FAIL, 1, "answers 503"),
        (Broken(f"said {KEY}\x1b[2J"), Level.FAIL, 4, "cannot be reached: said ***\\x1b"),
    ],
)
def test_a_list_of_models_is_judged(answer: Answer | Broken, level: Level, code: int, says: str) -> None:
    found = listed(SERVER, answer)
    assert (found.level, found.code) == (level, code)
    assert says in found.said
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    ("answer", "listing", "code", "says"),
    [
        (Answer(200, 0.4123, COMPLETION), LISTS, 0, "answered 200 in 412 ms, 9+2 tokens, model qwen-2"),
        (Answer(200, 0.1, {"choices": [{}], "usage": []}), LISTS, 0, "?+? tokens, model unnamed"),
        (Answer(200, 0.1, {**COMPLETION, "model": f"m {KEY}"}), LISTS, 0, "model m ***"),
        (Answer(200, 0.1, {"error": KEY}), LISTS, 1, "no chat completion"),
        (Answer(404, 0.1, None), LISTS, 1, "does not know model qwen"),
        (Answer(404, 0.1, None), Answer(404, 0.1, None), 2, "leads nowhere"),
        (Answer(400, 0.1, {"error": {"message": KEY}}), LISTS, 1, "refuses a plain call"),
        (Answer(401, 0.1, None), LISTS, 1, "refuses its key"),
        (Broken("no answer within 30 s"), LISTS, 4, "no answer within 30 s"),
    ],
)
def test_an_answer_is_judged(answer: Answer | Broken, listing: Answer | Broken, code: int, says: str) -> None:
    found = asked(SERVER, answer, listing)
    assert found.code == code
    assert says in found.said
    assert KEY not in repr(found)


def test_whoever_needs_a_key_and_gets_none_is_told_where_to_name_it() -> None:
    found = listed(replace(SERVER, key=None, key_name=""), Answer(401, 0.1, None))
    assert "calls without a key" in found.said
    assert "api_key_env" in found.next_step


def kafka_says(workers: int | None = 1, **values: Any) -> dict[str, Finding]:
    """Findings that are not ok, by what they are about."""
    given: dict[str, Any] = {
        "servers": "b:1",
        "partitions": {"p.a": 6, "dead": 1},
        "prompts": ["p.a"],
        "policies": {"p.a": "delete", "dead": "delete"},
        "groups": Groups(known=True, members=1, others=[]),
        "lag": [Lag(topic="p.a", partition=0, committed=0, end=2, lag=2)],
    }
    found = kafka_verdicts.judge(KafkaFacts(**{**given, **values}), "^p", "dead", "g", workers)
    return {f.about: f for f in found if f.level is not Level.OK}


@pytest.mark.parametrize(
    ("workers", "values", "about", "code", "says"),
    [
        (1, {"partitions": {"p.a": 6}}, "topic dead", 1, "is not there"),
        (1, {"policies": {"p.a": "compact,delete"}}, "topic p.a", 1, "compacted"),
        (1, {"policies": {"dead": "compact"}}, "topic dead", 0, "compacted"),
        (1, {"prompts": []}, "topics ^p", 0, "there is none"),
        (7, {}, "topics ^p", 0, "fewer partitions than the 7 workers"),
        (2, {"groups": Groups(known=True, members=0, others=[])}, "group g", 0, "nobody is in it, yet"),
        (0, {"groups": Groups(known=False, members=0, others=[])}, "group g", 0, "is not known"),
        (1, {"groups": Groups(known=True, members=1, others=["other"])}, "group other", 0, "reads the prompts too"),
        (1, {"groups": None, "untold": ["consumer groups: no"]}, "kafka", 0, "did not tell: consumer groups: no"),
    ],
)
def test_what_kafka_says_is_judged(workers: int, values: dict[str, Any], about: str, code: int, says: str) -> None:
    (found,) = kafka_says(workers, **values).values()
    assert (found.about, found.code) == (about, code)
    assert says in found.said
    assert found.next_step


def test_a_kafka_that_is_well_is_told_of_with_its_lag() -> None:
    assert kafka_says() == {}
    assert kafka_says(None) == {}


STORED = DatabaseFacts("u", "17", 0.1, True, REVISION, [], [{"in_flight": 3, "seen_seconds_ago": 1.0}], [])
CIRCUIT = {"endpoint": "llm", "reason": "auth", "detail": KEY, "opened_at": NOW}


@pytest.mark.parametrize(
    ("values", "about", "code", "says"),
    [
        ({"may_use": None, "revision": None}, "postgres", 2, "no tables"),
        ({"may_use": False}, "postgres", 1, "may not use the schema"),
        ({"revision": None}, "postgres", 2, "revision none"),
        ({"revision": "0001"}, "postgres", 2, f"revision 0001, {REVISION} is needed"),
        ({"revision": "9999"}, "postgres", 2, "this release knows"),
        ({"missing": ["INSERT", "UPDATE"]}, "postgres", 1, "user u may not INSERT, UPDATE headrace.results"),
        ({"ahead_seconds": 5.1}, "clock", 0, "5.1 s ahead of"),
        ({"ahead_seconds": -60.0}, "clock", 0, "60.0 s behind"),
        ({"workers": []}, "workers", 0, "none was seen"),
        ({"circuits": [CIRCUIT]}, "circuit llm", 1, "auth; its rows wait"),
        ({"circuits": None, "untold": ["no right"]}, "postgres", 0, "did not tell: no right"),
    ],
)
def test_what_postgres_says_is_judged(values: dict[str, Any], about: str, code: int, says: str) -> None:
    (found,) = [f for f in database_verdicts.judge(replace(STORED, **values)) if f.level is not Level.OK]
    assert (found.about, found.code) == (about, code)
    assert says in found.said
    assert KEY not in repr(found)


def test_a_database_that_is_well_has_nothing_to_do() -> None:
    assert {f.level for f in database_verdicts.judge(STORED)} == {Level.OK}


def test_all_settings_are_read_although_some_are_wrong() -> None:
    told = read({"DATABASE_URL": "mysql://x", "KAFKA_SECURITY_PROTOCOL": "TLS", "LLM_BASE_URL": "http://llm/v1"})
    assert [server.base_url for server in told.servers] == ["http://llm/v1"]
    assert {f.code for f in told.findings} == {ExitCode.WRONG_SETTINGS}
    said = "\n".join(f.said for f in told.findings)
    assert "DATABASE_URL" in said
    assert "KAFKA_SECURITY_PROTOCOL" in said


MODELS = """
models:
  small: {endpoints: [{base_url: "http://a/v1", api_key_env: K}, {base_url: "http://b/v1", model: q}]}
  large: {endpoints: [{base_url: "http://c/v1", api_key_env: K}]}
"""


@pytest.mark.parametrize(
    ("environ", "servers", "problems"),
    [
        ({"K": f" {KEY}\n"}, {"http://a/v1": KEY, "http://b/v1": None, "http://c/v1": KEY}, []),
        ({}, {"http://a/v1": None, "http://b/v1": None, "http://c/v1": None}, ["K is not set"]),
        ({"K": f"{KEY}\n{KEY}"}, {"http://b/v1": None}, ["K holds a line break inside"]),
        ({"K": f"{KEY}ä"}, {"http://b/v1": None}, ["K holds a character"]),
        ({"K_FILE": "/no/such/key"}, {"http://b/v1": None}, ["K_FILE /no/such/key cannot be read"]),
    ],
)
def test_each_endpoint_gets_its_key(
    environ: Mapping[str, str], servers: Mapping[str, str | None], problems: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(MODELS)
    told = read({**environ, "MODELS_FILE": str(path)})
    assert {s.base_url: s.key.get_secret_value() if s.key else None for s in told.servers} == servers
    said = [f.said for f in told.findings if f.level is not Level.OK]
    assert len(said) == len(problems)
    assert all(problem in text for problem, text in zip(problems, said, strict=True))
    assert KEY not in repr(told)


JOB = """
job: reviews
source: {format: csv, path: in.csv}
id: id
prompt: {template: "{text}"}
routes: [{model: large}]
target: {format: delta, path: out}
"""


def test_a_job_file_is_checked_against_settings_topics_and_target(tmp_path: Path) -> None:
    path, models, commits = tmp_path / "job.yaml", tmp_path / "models.yaml", tmp_path / "out" / "_delta_log"
    path.write_text(JOB)
    models.write_text(MODELS.replace("large", "huge"))
    told = read({"MODELS_FILE": str(models), "PROMPTS_TOPIC": "other", "K": KEY})
    commits.mkdir(parents=True)
    written = (NOW - timedelta(hours=3)).timestamp()
    (commits / "0.json").touch()
    for place in (commits / "0.json", commits):
        os.utime(place, (written, written))
    found = job.check(path, told, ["headrace.prompts.reviews"], NOW)
    said = "\n".join(showing.lines(found))
    assert "routes name model large" in said
    assert "no worker reads it: PROMPTS_TOPIC is other" in said
    assert "target out: last written 3:00:00 ago" in said
    assert exit_code(found) == ExitCode.WRONG_SETTINGS


@pytest.mark.parametrize(
    ("topics", "says"),
    [([], "the producer makes it"), (["headrace.prompts.reviews"], "is there"), (None, "can be read")],
)
def test_a_job_that_fits_is_well(topics: list[str] | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    found = job.check(path, read({"LLM_BASE_URL": "http://llm/v1"}), topics, NOW)
    assert exit_code(found) == ExitCode.DONE
    assert says in "\n".join(showing.lines(found))


def test_every_problem_of_a_job_file_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("id: id", "ident: id"))
    found = job.check(path, read({}), None, NOW)
    assert len(found) == 2
    assert exit_code(found) == ExitCode.WRONG_SETTINGS


def test_findings_are_shown_as_lines_as_a_screen_and_as_json() -> None:
    found = [ok("kafka", "answers"), wrong("endpoint [red]x", "is \x1b[2J away", "mend it")]
    plain = list(showing.lines(found))
    assert plain == [
        "ok    kafka: answers",
        r"FAIL  endpoint [red]x: is \x1b[2J away -> mend it",
        "1 wrong, 0 to look at, 1 well",
    ]
    out = io.StringIO()
    Console(file=out, width=40, markup=False, emoji=False, highlight=False).print(showing.screen(found))
    assert all(len(line.rstrip()) <= 40 for line in out.getvalue().splitlines())
    assert "[red]x" in out.getvalue()
    document = json.loads(json.dumps(showing.document(found)))
    assert document["exit_code"] == 1
    assert document["findings"][0] == {"level": "ok", "about": "kafka", "said": "answers", "next_step": None}
