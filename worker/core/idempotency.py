"""The key that lets a server recognise a repeated request."""

from __future__ import annotations

from hashlib import sha256

from schemas.message import Prompt


def idempotency_key(prompt: Prompt, *, repeated: bool) -> str:
    """One key for all tries of one request, so that a server that keeps keys bills once; another for a repetition."""
    parts = (prompt.job, prompt.id, prompt.fingerprint, str(repeated))
    return sha256("\x1f".join(parts).encode()).hexdigest()[:32]
