"""The closed word lists of the product: statuses, reasons, billing, job states and exit codes."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Status(StrEnum):
    """State of one row of `results`."""

    CLAIMED = "claimed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Reason(StrEnum):
    """Why a row has not succeeded."""

    TRUNCATED = "truncated"
    FILTERED = "filtered"
    REFUSED = "refused"
    TOO_LONG = "too_long"
    INVALID_OUTPUT = "invalid_output"
    MALFORMED_RESPONSE = "malformed_response"
    REJECTED_REQUEST = "rejected_request"
    AUTH = "auth"
    QUOTA = "quota"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    CRASHED = "crashed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Billed(StrEnum):
    """Whether a call that left the worker costs money; `maybe` when nobody saw its answer."""

    YES = "yes"
    NO = "no"
    MAYBE = "maybe"


class JobState(StrEnum):
    """State of one run of a job."""

    CANARY = "canary"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    DONE = "done"


class PausedFor(StrEnum):
    """By whom a run was paused: a person, or its budget."""

    OPERATOR = "operator"
    BUDGET = "budget"


class Unit(StrEnum):
    """What a rate limit counts."""

    REQUESTS = "requests"
    TOKENS = "tokens"


class DeadLetter(StrEnum):
    """Why a message could not be read."""

    NOT_JSON = "not_json"
    FRAMED = "schema_registry_framing"
    VERSION = "unknown_version"
    NO_ID = "no_id"
    INVALID_ID = "invalid_id"
    KEY_MISMATCH = "key_mismatch"
    NO_PROMPT = "no_prompt"
    INVALID_MESSAGES = "invalid_messages"
    INVALID_FIELD = "invalid_field"


class LetterKind(StrEnum):
    """The two ways in which a message ends without an answer: nobody could read it, or its prompt failed."""

    UNREADABLE = "unreadable"
    FAILED = "failed"


class ExitCode(IntEnum):
    """What each program tells its caller when it ends."""

    DONE = 0
    FAILED = 1
    WRONG_SETTINGS = 2
    STOPPED = 3
    UNREACHABLE = 4
