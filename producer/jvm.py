"""Spark's JVM, which is not at hand under Spark Connect: the one file that reaches past Spark's API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from schemas.spark_jars import Presence


def settled() -> SparkConf:
    """Give what the starter settled: only with the JVM behind it does a SparkConf hold that."""
    SparkContext._ensure_initialized()
    return SparkConf()


def presence(name: str) -> Presence:
    """Look for a class where Spark will; to load it also shows whether it was built for this Spark."""
    jvm = _jvm()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(name, True, loader).getDeclaredConstructors()
    except Py4JJavaError as error:
        missing = error.java_exception.getClass().getSimpleName() == "ClassNotFoundException"
        return Presence.MISSING if missing else Presence.MISFIT
    return Presence.FITS


def pass_on(act: Callable[[], object]) -> None:
    """Let a SIGTERM that reaches the JVM do this, in a thread of its own, instead of ending it; the last one counts.

    Under `spark-submit` the JVM is the process that a scheduler stops: it would end at once, and the run with it.
    """
    jvm = _jvm()
    ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]
    jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal("TERM"), _Handler(act))


class _Handler:
    """What the JVM calls."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def handle(self, _: Any) -> None:
        self._act()

    class Java:
        """The interface that the JVM sees."""

        implements = ("sun.misc.SignalHandler",)


class HadoopFiles:
    """The file system that a path lies on, with Spark's own settings; calls go through Spark's driver."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._path = _jvm().org.apache.hadoop.fs.Path
        self._fs = self._path(path).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def listed(self, path: str) -> Iterator[tuple[str, int, int]]:
        """Give name, from the folder on, size and time of each file below a folder, if it is there."""
        root = self._path(path)
        if not self._fs.exists(root):
            return
        base = len(self._fs.makeQualified(root).toUri().getPath().rstrip("/")) + 1
        listing = self._fs.listFiles(root, True)
        while listing.hasNext():
            file = listing.next()
            yield str(file.getPath().toUri().getPath())[base:], file.getLen(), file.getModificationTime()

    def write(self, path: str, text: str) -> None:
        """Make a file, and the folder that it is in."""
        with closing(self._fs.create(self._path(path), True)) as stream:
            stream.write(bytearray(text.encode()))

    def move(self, source: str, target: str) -> None:
        """Rename a folder and make the target's parent; raises `OSError`."""
        self._fs.mkdirs(self._path(target).getParent())
        if not self._fs.rename(self._path(source), self._path(target)):
            raise OSError(f"{source} cannot be renamed to {target}")

    def delete(self, path: str) -> None:
        """Remove a folder and all below it, if it is there."""
        self._fs.delete(self._path(path), True)


def _jvm() -> Any:
    SparkContext._ensure_initialized()
    return SparkContext._jvm
