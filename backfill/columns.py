"""Names of columns: those of the target that hold the answer, those that live inside a run, and safe quoting."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

PREFIX = "__headrace_"
# What a row is joined and compared by: its id as text, or a hash of its content if it has none.
KEY = f"{PREFIX}key"

# What names a result among all of its job: the id it was asked under, and more if its row asks something else by now.
HANDLE = "handle"
# Whether an answer is known to be the one to the request that its row asks now; else only its age speaks for it.
CURRENT = f"{PREFIX}current"

STATUS = "llm_status"
VERSION = "llm_prompt_version"
COMPLETED = "llm_completed_at"


def llm_schema(output: DataType | None) -> StructType:
    """The columns of an answer in their order: fixed types, and `output` (string if None) for `llm_output`."""
    types: dict[str, DataType] = {
        STATUS: StringType(),
        "llm_reason": StringType(),
        "llm_result": StringType(),
        "llm_output": output or StringType(),
        "llm_model": StringType(),
        "llm_endpoint": StringType(),
        VERSION: StringType(),
        "llm_run": StringType(),
        "llm_prompt_tokens": LongType(),
        "llm_completion_tokens": LongType(),
        "llm_cost_usd": DecimalType(18, 8),
        "llm_attempts": IntegerType(),
        "llm_finish_reason": StringType(),
        COMPLETED: TimestampType(),
    }
    return StructType([StructField(name, kind) for name, kind in types.items()])


LLM_COLUMNS = tuple(llm_schema(None).names)


def quoted(name: str) -> str:
    """Write a name as SQL takes it, whatever characters it holds."""
    return f"`{name.replace('`', '``')}`"


def column(name: str) -> Column:
    """Name a column by its exact text."""
    return fn.col(quoted(name))
