"""`headrace dead-letters` on a real Kafka and Postgres: what it tells, what it sends, and what it leaves alone."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from sqlalchemy.engine import make_url

from control.dead_letters.choosing import Wish
from control.dead_letters.collecting import Topics, letters
from control.dead_letters.database import Database
from control.dead_letters.filters import Asked, Filters
from control.dead_letters.reading import Reader
from control.dead_letters.replay import Replay
from control.dead_letters.sending import Outgoing, Sender
from control.dead_letters.settings import LetterSettings
from schemas.fingerprint import fingerprint
from schemas.message import Prompt, decode
from tests.fleet import Fleet, fleet
from tests.integration.commands.letters import (
    body,
    bury,
    command,
    command_of_its_own,
    commit_all,
    fail,
    headers_of,
    publish,
    store,
    topic_id,
    topic_messages,
    wait_for_leaders,
)
from tests.services import KafkaService, PostgresService

pytestmark = pytest.mark.integration
NOBODY = "127.0.0.1:1"
CANARY = "tell-nobody-5551234"
RED = "\x1b[31m[red]\u202e"


@pytest.fixture
def world(kafka: KafkaService, postgres: PostgresService, tmp_path: Path) -> Iterator[Fleet]:
    """A job without workers: what they would have left behind is written by hand."""
    with fleet(kafka.bootstrap_servers, postgres.new_database(), tmp_path, "http://127.0.0.1:1/v1") as made:
        wait_for_leaders(made)
        yield made


def counts(world: Fleet, *words: str, **settings: str) -> tuple[int, dict[str, int]]:
    """What a replay says: how many were sent, and why the others were not."""
    ended = command(world, "replay", "--json", *words, **settings)
    assert ended.code == 0, ended.err
    said = ended.object
    sent = said["would_send"] if said["dry_run"] else said["sent"]
    assert said["matched"] == sent + sum(part["letters"] for part in said["left_alone"])
    assert said["dry_run"] or said["acknowledged"] == sent
    left: Counter[str] = Counter()
    for part in said["left_alone"]:
        left[part["why"]] += part["letters"]
    return sent, dict(left)


def test_where_there_is_nothing_every_command_says_so(world: Fleet) -> None:
    for words in (("list",), ("list", "--summary"), ("replay",), ("replay", "--dry-run")):
        ended = command(world, *words)
        assert (ended.code, ended.out + ended.err) == (0, "no dead letter matches\n")
    assert counts(world) == (0, {})


def test_both_kinds_are_listed_by_filters_and_counted_without_a_word_of_what_they_hold(world: Fleet) -> None:
    first = bury(world, f"not json {CANARY}".encode(), key=f"k{RED}".encode(), reason="not_json")
    second = bury(world, body(world, "r-2", CANARY), reason="unknown_version")
    third = fail(world, "r-3", "timeout", prompt=CANARY)
    fail(world, "r-4", "filtered", prompt=CANARY)
    listed = command(world, "list", "--json")
    assert listed.code == 0
    found = {letter["letter"]: letter for letter in listed.objects}
    assert [found[ref]["reason"] for ref in (first, second, third)] == ["not_json", "unknown_version", "timeout"]
    assert [found[ref]["id"] for ref in (second, third)] == ["r-2", "r-3"]
    assert {letter["job"] for letter in found.values()} == {world.job}
    assert len(found) == 4
    plain = command(world, "list")
    assert len(plain.out.splitlines()) == 4
    assert plain.err.splitlines()[0] == "4 dead letters"
    for text in (listed.out, plain.out, plain.err):
        assert CANARY not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "k\\x1b[31m[red]\\u202e" in plain.out

    def ids(*words: str) -> list[str]:
        return [letter["id"] for letter in command(world, "list", "--json", *words).objects]

    assert ids("--kind", "failed") == ["r-3", "r-4"]
    assert ids("--reason", "timeout", "--reason", "unknown_version") == ["r-2", "r-3"]
    assert ids("--id", "r-4", "--job", world.job) == ["r-4"]
    assert ids("--job", "other") == []
    assert ids("--since", "1h", "--kind", "failed", "--topic", world.topic) == ["r-3", "r-4"]
    assert ids("--since", "1h", "--kind", "unreadable", "--id", "r-2") == ["r-2"]
    assert ids("--until", "1h") == []
    assert ids("--since", "2999-01-01") == []
    assert ids("--topic", f"{world.topic}-none") == []
    limited = command(world, "list", "--limit", "1")
    assert (len(limited.out.splitlines()), limited.err.splitlines()[0]) == (1, "4 dead letters, 1 shown")
    assert command(world, "list", "--summary").out.splitlines()[0] == "4 dead letters"
    summary = command(world, "list", "--summary", "--json").objects
    assert {(part["kind"], part["reason"], part["letters"]) for part in summary} == {
        ("unreadable", "not_json", 1),
        ("unreadable", "unknown_version", 1),
        ("failed", "timeout", 1),
        ("failed", "filtered", 1),
    }


def test_a_letter_is_shown_whole_but_its_payload_only_when_asked_for(world: Fleet) -> None:
    ref = bury(world, body(world, "r-1", CANARY + RED, v=9), headers=[("traceparent", b"00-ab"), ("x", RED)])
    shown = command(world, "show", ref)
    assert shown.code == 0
    assert "traceparent: 00-ab" in shown.out
    assert "x: \\x1b[31m[red]\\u202e" in shown.out
    assert "__connect.errors.class.name: unknown_version" in shown.out
    assert CANARY not in shown.out
    with_payload = command(world, "show", ref, "--payload").out
    assert f"{CANARY}\\x1b[31m[red]" in with_payload.replace("\\u001b", "\\x1b")
    assert "\x1b" not in with_payload
    fail(world, "r-2", prompt=CANARY)
    with psycopg.connect(world.database) as connection:
        connection.execute("UPDATE headrace.results SET result = %s WHERE id = 'r-2'", (f"half an answer {CANARY}",))
        connection.execute(
            "INSERT INTO headrace.attempts (job, id, attempt, outcome, http_status, billed, detail)"
            " VALUES (%s, 'r-2', 1, 'timeout', 504, 'maybe', %s)",
            (world.job, f"said {CANARY}"),
        )
    row = command(world, "show", "--job", world.job, "--id", "r-2")
    assert "reason: timeout" in row.out
    assert "http_status: 504" in row.out
    assert CANARY not in row.out
    machine = command(world, "show", "--job", world.job, "--id", "r-2", "--payload", "--json").object
    assert json.loads(machine["payload"])["prompt"] == CANARY
    assert machine["row"]["result"] == f"half an answer {CANARY}"
    assert machine["calls"][0]["detail"] == f"said {CANARY}"


def test_what_is_not_there_is_not_shown(world: Fleet) -> None:
    missing = command(world, "show", f"{world.dead_letter_topic}/0/7")
    assert (missing.code, missing.err) == (
        1,
        f"there is no message at {world.dead_letter_topic}/0/7, or it has expired\n",
    )
    assert command(world, "show", "--job", world.job, "--id", "nobody").code == 1
    elsewhere = command(world, "show", f"{world.topic}/0/0")
    assert (elsewhere.code, "DEAD_LETTER_TOPIC" in elsewhere.err) == (2, True)


def test_a_dry_run_counts_and_sends_nothing_and_a_replay_sends_what_it_counted(world: Fleet) -> None:
    bury(world, b"never json", reason="not_json")
    ref = bury(world, body(world, "r-2"), key=b"r-2", headers=[("traceparent", b"00-ab")])
    failed = fail(world, "r-3", "timeout")
    commit_all(world, world.job)
    before = len(topic_messages(world, world.topic))
    assert counts(world, "--dry-run") == (2, {"still_unreadable": 1})
    assert len(topic_messages(world, world.topic)) == before
    assert world.rows("replays") == []
    assert counts(world) == (2, {"still_unreadable": 1})
    sent = {m.key(): m for m in topic_messages(world, world.topic) if "headrace.replay.of" in headers_of(m)}
    assert set(sent) == {b"r-2", b"r-3"}
    assert sent[b"r-2"].value() == body(world, "r-2")
    assert headers_of(sent[b"r-2"]) == {
        "traceparent": "00-ab",
        "headrace.replay.of": ref,
        "headrace.replay.root": ref,
    }
    again = json.loads(sent[b"r-3"].value() or b"")
    links = {link["id"]: link for link in world.rows("replays")}
    assert {**again, "run": "", "published_at": ""} == {
        "id": "r-3", "prompt": "Why?", "job": world.job, "run": "", "published_at": "",
    }  # fmt: skip
    assert (again["run"], links["r-3"]["ancestor"], links["r-3"]["kind"]) == (links["r-3"]["run"], failed, "failed")
    for key, link in links.items():
        message = sent[key.encode()]
        assert (link["partition"], link["log_offset"]) == (message.partition(), message.offset())
        assert link["log"] == f"{topic_id(world, world.topic)}/{message.partition()}"
        assert link["acknowledged_at"] >= link["replayed_at"]
    assert counts(world) == (0, {"still_unreadable": 1, "replayed_before": 2})
    assert {line.split("\t")[-1] for line in command(world, "list").out.splitlines()} == {
        "-",
        "replayed: waits",
    }
    commit_all(world, world.job)
    assert counts(world, "--again", "--kind", "unreadable") == (1, {"still_unreadable": 1})


def test_the_limit_is_kept_and_what_is_left_comes_with_the_next(world: Fleet) -> None:
    for number in range(5):
        fail(world, f"r-{number}")
    commit_all(world, world.job)
    assert counts(world, "--limit", "2") == (2, {})
    assert counts(world) == (3, {"replayed_before": 2})


def test_what_would_bring_an_older_version_back_is_left_alone(world: Fleet) -> None:
    log = f"{topic_id(world, world.topic)}/0"
    bury(world, body(world, "r-1", "old"), key=b"r-1", place=(world.topic, 0, 3))
    store(world, "r-1", "succeeded", None, "f" * 64, (log, 9))
    bury(world, body(world, "r-2", "same"), key=b"r-2")
    store(world, "r-2", "succeeded", None, fingerprint(None, [{"role": "user", "content": "same"}]), (log, 9))
    bury(world, body(world, "r-3", "same"), key=b"r-3")
    store(world, "r-3", "claimed", None, fingerprint(None, [{"role": "user", "content": "same"}]), (log, 9))
    fail(world, "r-4")
    commit_all(world, world.job)
    publish(world, world.topic, b"r-4", body(world, "r-4", "newer"))
    assert counts(world) == (0, {"superseded": 1, "answered": 1, "being_asked": 1, "waits_unread": 1})
    commit_all(world, world.job)
    assert counts(world, "--kind", "failed", "--dry-run") == (1, {})


def test_a_letter_that_was_changed_on_the_way_is_refused(world: Fleet) -> None:
    mark = fingerprint(None, [{"role": "user", "content": "Why?"}])
    bury(world, body(world, "r-1", "Why not?", fingerprint=mark))
    bury(world, body(world, "r-2"), key=b"r-2", place=("headrace.somewhere-else", 0, 0))
    bury(world, body(world, "r-3"), key=b"r-3", place=(f"{world.topic}-none", 0, 0))
    bury(world, None, key=b"r-4", headers=[("headrace.value.omitted.bytes", "3000000")])
    publish(world, world.dead_letter_topic, b"r-5", body(world, "r-5"))
    fail(world, "r-6")
    with psycopg.connect(world.database) as connection:
        connection.execute("UPDATE headrace.results SET fingerprint = repeat('e', 64)")
    ended = command(world, "replay", "--json")
    assert {(part["why"], part["reason"]) for part in ended.object["left_alone"]} == {
        ("still_unreadable", "invalid_field"),
        ("foreign_topic", "unknown_version"),
        ("topic_missing", "unknown_version"),
        ("value_omitted", "unknown_version"),
        ("no_source", None),
        ("fingerprint_differs", "timeout"),
    }
    assert ended.object["matched"] == 6
    assert len([line for line in ended.err.splitlines() if line.startswith("left alone: ")]) == 6


def test_messages_that_are_gone_are_told_row_by_row(world: Fleet) -> None:
    expired = fail(world, "r-1")
    topic, partition, offset = expired.split("/")
    admin = AdminClient({"bootstrap.servers": world.kafka})
    (future,) = admin.delete_records([TopicPartition(topic, int(partition), int(offset) + 1)]).values()
    future.result(30)
    commit_all(world, world.job)
    with psycopg.connect(world.database) as connection:
        connection.execute(
            "INSERT INTO headrace.results (job, id, status, reason) VALUES (%s, 'r-2', 'failed', 'timeout')",
            (world.job,),
        )
    store(world, "r-3", "failed", "timeout", "f" * 64, ("AAAAAAAAAAEAAAAAAAAAAg/0", 5))
    ended = command(world, "replay", "--json")
    assert {part["why"] for part in ended.object["left_alone"]} == {"message_expired", "no_source", "topic_recreated"}
    assert f"{expired}  {world.job}  r-1: message_expired" in ended.err
    assert ended.code == 0


def test_a_crash_before_the_message_leaves_loses_none_and_one_behind_it_doubles_none(world: Fleet) -> None:
    class Crash(BaseException):
        pass

    class NeverSends(Sender):
        def send(self, message: Outgoing, delivered: object) -> None:
            raise Crash

    class NeverWrites(Database):
        def acknowledge(self, places: object) -> None:
            raise Crash

    fail(world, "r-1")
    fail(world, "r-2")
    commit_all(world, world.job)
    now = datetime.now(UTC)
    settings = LetterSettings(world.env, Asked(), now)

    def crash(database: type[Database], sender: type[Sender], run: str, id_: str) -> None:
        reader, tables = Reader(settings.kafka, world.job), database(settings.database)
        topics = Topics.look(reader, settings.topics)
        one = Replay(topics, reader, tables, sender(settings.kafka), lambda *_: None)
        found = letters(Filters(id=id_), topics, reader, tables, by_place=True)
        with pytest.raises(Crash):
            one.run(found, Wish(run), lambda: now)
        reader.close()
        tables.close()

    crash(Database, NeverSends, "before", "r-1")
    crash(NeverWrites, Sender, "behind", "r-2")
    assert {(link["run"], link["acknowledged_at"]) for link in world.rows("replays")} == {
        ("before", None),
        ("behind", None),
    }
    assert {line.split("\t")[-1] for line in command(world, "list").out.splitlines()} == {"unconfirmed"}
    # The one that left is found waiting; the one that did not goes under the run of its link.
    assert counts(world) == (1, {"waits_unread": 1})
    # Where it is not seen, it goes a second time, as the same request of the same run.
    commit_all(world, "another-group")
    assert counts(world, CONSUMER_GROUP="another-group") == (1, {"replayed_before": 1})
    links = {link["id"]: link for link in world.rows("replays")}
    assert (links["r-1"]["run"], links["r-2"]["run"]) == ("before", "behind")
    assert all(link["acknowledged_at"] for link in links.values())
    twice = [decode(m.key(), m.value() or b"") for m in topic_messages(world, world.topic) if m.key() == b"r-2"]
    assert [prompt.run for prompt in twice if isinstance(prompt, Prompt)] == [None, "behind", "behind"]


def test_a_broker_that_does_not_take_a_message_ends_the_replay_with_1(world: Fleet) -> None:
    fail(world, "r-1", prompt="long " * 100)
    commit_all(world, world.job)
    admin = AdminClient({"bootstrap.servers": world.kafka})
    entry = ConfigEntry("max.message.bytes", "100", incremental_operation=AlterConfigOpType.SET)
    small = ConfigResource(ResourceType.TOPIC, world.topic, incremental_configs=[entry])
    admin.incremental_alter_configs([small])[small].result(30)
    ended = command(world, "replay")
    assert ended.code == 1
    assert "sent 1, acknowledged 0" in ended.out
    assert "not all were acknowledged" in ended.err
    assert command(world, "list").out.endswith("\tunconfirmed\n")


@pytest.mark.parametrize(("role", "code"), [("headrace_reader", 1), ("headrace_worker", 0)])
def test_a_reader_may_look_and_a_worker_may_replay(world: Fleet, role: str, code: int) -> None:
    fail(world, "r-1")
    commit_all(world, world.job)
    user, password = f"user_{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    with psycopg.connect(world.database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}' IN ROLE {role}".encode())
    url = make_url(world.database)
    query = dict(url.query)
    mine = url.set(username=user, password=password, query={}).update_query_dict(query)
    settings = {"DATABASE_URL": mine.render_as_string(hide_password=False)}
    assert len(command(world, "list", "--json", **settings).objects) == 1
    assert command(world, "show", "--job", world.job, "--id", "r-1", **settings).code == 0
    assert command(world, "replay", "--dry-run", **settings).code == 0
    ended = command(world, "replay", **settings)
    assert (ended.code, "permission denied" in ended.err) == (code, code == 1)
    assert len(topic_messages(world, world.topic)) == 1 + (code == 0)


def test_two_replays_at_once_are_one_too_many(world: Fleet) -> None:
    with psycopg.connect(world.database) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (0x64656164,))
        ended = command(world, "replay")
        assert (ended.code, "another replay" in ended.err) == (1, True)
        assert command(world, "replay", "--dry-run").code == 0


def test_without_a_dead_letter_topic_the_command_says_what_to_do(world: Fleet) -> None:
    fail(world, "r-1")
    ended = command(world, "list", DEAD_LETTER_TOPIC=f"{world.job}.none")
    assert (ended.code, "headrace topics" in ended.err) == (2, True)
    assert (
        len(command(world, "list", "--kind", "failed", DEAD_LETTER_TOPIC=f"{world.job}.none").out.splitlines()) == 1
    )


@pytest.mark.parametrize("words", [("list",), ("show", "headrace.dead-letters/0/0"), ("replay",)])
def test_a_database_that_does_not_answer_ends_a_command_with_4(world: Fleet, words: tuple[str, ...]) -> None:
    ended = command(world, *words, DATABASE_URL=f"postgresql://x:hunter2@{NOBODY}/x")
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (4, "", 1)
    assert "DATABASE_URL" in ended.err
    assert "hunter2" not in ended.err


def test_a_broker_that_does_not_answer_ends_a_command_with_4_and_one_line(world: Fleet) -> None:
    world.kafka = NOBODY
    ended = command_of_its_own(world, "list")
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (4, "", 1)
    assert "KAFKA_BOOTSTRAP_SERVERS" in ended.err


def test_a_database_without_our_tables_is_named(postgres: PostgresService, world: Fleet) -> None:
    ended = command(world, "list", DATABASE_URL=postgres.new_database())
    assert (ended.code, "headrace migrate" in ended.err) == (2, True)


def test_every_wrong_option_and_setting_is_named_at_once(world: Fleet) -> None:
    ended = command(
        world, "list", "--since", "soon", "--reason", "boredom", "--limit", "0", "--id", " x",
        DATABASE_URL="mysql://x", DEAD_LETTER_TOPIC="a b",
    )  # fmt: skip
    assert ended.code == 2
    for name in ("--since", "--reason", "--limit", "--id", "DATABASE_URL", "DEAD_LETTER_TOPIC"):
        assert sum(name in line for line in ended.err.splitlines()) == 1, ended.err
    assert command(world, "show").code == 2
    assert command(world, "show", "nowhere").code == 2
