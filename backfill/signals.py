"""SIGTERM where `spark-submit` gets it: in the JVM, which would end at once and take a running write with it."""

from __future__ import annotations

import threading
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started


class _Handler:
    """What the JVM calls instead of its own end; a second signal changes nothing."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def handle(self, _: Any) -> None:
        self._stop.set()

    class Java:
        """The interface that the JVM sees."""

        implements = ("sun.misc.SignalHandler",)


def pass_on(stop: threading.Event) -> None:
    """Let a SIGTERM that reaches the JVM set an event of ours; call it when Spark runs."""
    gateway, jvm = SparkContext._gateway, SparkContext._jvm
    assert gateway is not None
    assert jvm is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal("TERM"), _Handler(stop))
