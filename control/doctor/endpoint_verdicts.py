"""What is to be thought of what an endpoint answers; of its words only numbers and the model's name are shown."""

from __future__ import annotations

from typing import Any

from control.dead_letters.terminal import visible
from control.doctor.endpoints import Answer, Broken
from control.doctor.finding import Finding, away, missettled, ok, warn, wrong
from control.doctor.settings import Server

_KEY_REFUSED = (401, 403)
_NOT_THERE = 404
_NO_LIST = (_NOT_THERE, 405, 501)
_LIMITED = 429
_REFUSED = (400, 422)
_MODEL_STEP = "check the model's name at the endpoint (models file: model; else LLM_MODEL)"
_ADDRESS_STEP = "check base_url (models file) or LLM_BASE_URL; it usually ends in /v1"


def listed(server: Server, answer: Answer | Broken) -> Finding:
    """Judge the answer to the question for the list of models."""
    about = server.about
    if isinstance(answer, Answer) and answer.status in _NO_LIST:
        return warn(about, f"has no list of models ({answer.status})", f"{_ADDRESS_STEP}; --ask tells more")
    if (finding := _refusal(server, answer)) is not None:
        return finding
    names = _names(answer)
    if names is None:
        return warn(about, f"answers {_status(answer)}, but with no list of models", _ADDRESS_STEP)
    if server.model not in names:
        return warn(about, f"does not list model {server.model} among its {len(names)}", _MODEL_STEP)
    return ok(about, f"lists model {server.model}{'' if server.key else ', no key needed'}")


def asked(server: Server, answer: Answer | Broken, listing: Answer | Broken) -> Finding:
    """Judge the answer to the one row."""
    if isinstance(answer, Answer) and answer.status == _NOT_THERE:
        if isinstance(listing, Answer) and listing.status == _NOT_THERE:
            return missettled(server.about, "leads nowhere: 404 to /models and to a call", _ADDRESS_STEP)
        return wrong(server.about, f"does not know model {server.model} (404)", _MODEL_STEP)
    if isinstance(answer, Answer) and answer.status in _REFUSED:
        said = f"refuses a plain call of model {server.model} ({answer.status})"
        return wrong(server.about, said, "it may not take max_tokens, or not know the model: try params of your own")
    if (finding := _refusal(server, answer)) is not None:
        return finding
    if not (isinstance(answer, Answer) and isinstance(answer.body, dict) and answer.body.get("choices")):
        return wrong(server.about, f"answers {_status(answer)}, but with no chat completion", _ADDRESS_STEP)
    return ok(server.about, _told(server, answer))


def _refusal(server: Server, answer: Answer | Broken) -> Finding | None:
    """What is the same for every question; None is a success."""
    about = server.about
    if isinstance(answer, Broken):
        return away(
            about, f"cannot be reached: {_clean(server, answer.why, 200)}", "check the address, and that it runs"
        )
    status = answer.status
    if 200 <= status < 300:
        return None
    if status in _KEY_REFUSED:
        return wrong(
            about, f"refuses {'its key' if server.key else 'calls without a key'} ({status})", _key_step(server)
        )
    if 300 <= status < 400:
        return wrong(about, f"redirects ({status}), which is not followed", _ADDRESS_STEP)
    if status == _LIMITED:
        return warn(about, f"is over a limit or a quota ({status})", "look at the account; workers wait and go on")
    return wrong(about, f"answers {status}", "look at the endpoint's own log or status page")


def _key_step(server: Server) -> str:
    if not server.key_name:
        return "name the variable of its key: api_key_env in the models file"
    return f"check {server.key_name} (or {server.key_name}_FILE)"


def _told(server: Server, answer: Answer) -> str:
    usage = answer.body.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    tokens = f"{_count(counts, 'prompt_tokens')}+{_count(counts, 'completion_tokens')} tokens"
    model = answer.body.get("model")
    named = _clean(server, model, 80) if isinstance(model, str) and model else "unnamed"
    return f"answered {answer.status} in {answer.seconds * 1000:,.0f} ms, {tokens}, model {named}"


def _count(usage: dict[str, Any], name: str) -> str:
    value = usage.get(name)
    return str(value) if isinstance(value, int) else "?"


def _clean(server: Server, text: str, most: int) -> str:
    """An endpoint that repeats its key must not bring it to the screen."""
    hidden = text.replace(server.key.get_secret_value(), "***") if server.key else text
    return visible(hidden, most)


def _status(answer: Answer | Broken) -> int:
    return answer.status if isinstance(answer, Answer) else 0


def _names(answer: Answer | Broken) -> list[str] | None:
    body = answer.body if isinstance(answer, Answer) else None
    found = body.get("data") if isinstance(body, dict) else body
    if not isinstance(found, list):
        return None
    return [str(entry["id"]) for entry in found if isinstance(entry, dict) and "id" in entry]
