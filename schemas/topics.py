"""Names and settings of the topics."""

from __future__ import annotations

import re

PROMPTS_PREFIX = "headrace.prompts"
PROMPTS_PATTERN = r"^headrace\.prompts(\..+)?$"
DEAD_LETTERS = "headrace.dead-letters"
PARTITIONS = 12
# Kafka's own default is 1 MiB less overhead; one number judges a message everywhere: producer, topic, worker.
MAX_MESSAGE_BYTES = 1_000_000
# Ours rather than the broker's defaults: an answer is waited for longer than a week only on purpose.
PROMPTS_CONFIG = {"cleanup.policy": "delete", "compression.type": "producer"}
DEAD_LETTERS_CONFIG = {"cleanup.policy": "delete", "max.message.bytes": str(2 * MAX_MESSAGE_BYTES)}
PARTITIONER = "murmur2_random"
_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")


def prompts_topic(job: str) -> str:
    """Name the topic of a job: `headrace.prompts.<job>`."""
    return f"{PROMPTS_PREFIX}.{job}"


def is_legal(topic: str) -> bool:
    """Tell whether Kafka takes this name: 1 to 249 of letters, digits, `.`, `_` and `-`."""
    return bool(_LEGAL.fullmatch(topic)) and topic not in {".", ".."}


def is_subscription(subscription: str) -> bool:
    """Tell whether Kafka takes this as a subscription: a legal name, or `^` and the rest of a regular expression."""
    if not subscription.startswith("^"):
        return is_legal(subscription)
    try:
        re.compile(subscription)
    except re.error:
        return False
    return True


def subscribes_to(subscription: str, topic: str) -> bool:
    """Tell whether a subscription (one name, or an expression beginning with `^`) takes in a topic."""
    return bool(re.match(subscription, topic)) if subscription.startswith("^") else subscription == topic
