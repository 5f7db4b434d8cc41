"""Header names of dead letters and of their replays."""

from __future__ import annotations

# Kafka Connect's names: `topic`, `partition`, `offset`, `connector.name`, `task.id`, `stage`, `class.name`.
ERRORS_PREFIX = "__connect.errors."
# The size of a value that the dead-letter topic did not take, so that the letter goes without it.
OMITTED = "headrace.value.omitted.bytes"
# Of a replayed message: the letter it was made from, and the first letter of its line, as topic/partition/offset.
REPLAY_OF = "headrace.replay.of"
REPLAY_ROOT = "headrace.replay.root"
