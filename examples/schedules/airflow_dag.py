"""A day of one job: publish at night, then join what is finished every quarter of an hour.

For Airflow 3 with the provider `apache-airflow-providers-apache-spark`; connection `spark_default` names the cluster.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

HOME = "/opt/headrace"
JOB = "/etc/headrace/reviews.yaml"
# One at a time, none for the past: a run does all that was left undone, whenever it comes.
ONE_AT_A_TIME = {"catchup": False, "max_active_runs": 1, "start_date": datetime(2026, 1, 1)}
CLUSTER = {"conn_id": "spark_default", "py_files": f"{HOME}/dist/headrace-spark.zip"}

with DAG("headrace_reviews_publish", schedule="0 2 * * *", **ONE_AT_A_TIME):
    SparkSubmitOperator(
        task_id="publish",
        application=f"{HOME}/producer/job.py",
        application_args=["--job", JOB],
        # A run that stopped on purpose, its canary say, would stop again.
        retries=0,
        **CLUSTER,
    )

with DAG("headrace_reviews_backfill", schedule=timedelta(minutes=15), **ONE_AT_A_TIME):
    SparkSubmitOperator(
        task_id="backfill",
        application=f"{HOME}/backfill/job.py",
        application_args=["--job", JOB],
        retries=2,
        retry_delay=timedelta(minutes=5),
        execution_timeout=timedelta(hours=2),
        **CLUSTER,
    )
