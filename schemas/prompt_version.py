"""The version of a prompt: one short word for everything in a job file that shapes what is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from schemas.examples import Example
from schemas.job import Job
from schemas.text import sorted_json

# 64 bits: two versions of one job will not meet, and a person can still compare them by eye.
_DIGITS = 16


def prompt_version(job: Job, json_schema: Mapping[str, Any] | None = None, examples: Sequence[Example] = ()) -> str:
    """Hash what is asked into 16 hex digits: cleaning, system, templates, messages, the content of the examples,
    routes with their templates, params and the content of the output schema.

    What only says where rows come from, go to, or how fast, does not count; nor does a rule left at its default,
    so a rule that a later release adds changes no version.
    """
    shape: dict[str, Any] = {
        "clean": job.clean.model_dump(mode="json", exclude_defaults=True),
        "prompt": job.prompt.model_dump(mode="json", exclude_defaults=True, exclude={"examples"}),
        "routes": [route.model_dump(mode="json", exclude_defaults=True) for route in job.routes],
        "params": job.params,
        "output": dict(json_schema) if json_schema is not None else None,
    }
    if examples:
        shape["examples"] = [[example.user, example.assistant] for example in examples]
    return sha256(sorted_json(shape).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
