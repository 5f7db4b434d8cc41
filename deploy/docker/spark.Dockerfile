# `spark-submit /app/producer/job.py` and `spark-submit /app/backfill/job.py`, with Delta's jars.
# docker build -f deploy/docker/spark.Dockerfile -t headrace-spark:local .
ARG JAVA_IMAGE=eclipse-temurin:17-jre-noble

FROM ${JAVA_IMAGE} AS base
RUN command -v python3 >/dev/null \
 || { apt-get update && apt-get install -y --no-install-recommends python3 && rm -rf /var/lib/apt/lists/*; }

# The locked packages: a layer that a change of our own code leaves alone.
FROM base AS packages
ENV UV_PROJECT_ENVIRONMENT=/opt/packages \
    UV_PYTHON=/usr/bin/python3 \
    UV_PYTHON_DOWNLOADS=never \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1
RUN python3 -c "import ensurepip" 2>/dev/null \
 || { apt-get update && apt-get install -y --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*; }
COPY deploy/docker/build-tools.txt /tmp/
RUN python3 -m venv /opt/tools \
 && /opt/tools/bin/pip install --no-cache-dir --require-hashes -r /tmp/build-tools.txt
WORKDIR /src
COPY pyproject.toml uv.lock ./
RUN /opt/tools/bin/uv sync --locked --no-dev --extra spark --no-install-project

FROM packages AS jars
COPY deploy deploy
RUN /opt/packages/bin/python -m deploy.docker.fetch_jars deploy/docker/delta-jars.sha256 /opt/jars

FROM packages AS build
COPY . .
RUN /opt/tools/bin/uv build --wheel --require-hashes --build-constraints /tmp/build-tools.txt --out-dir /dist \
 && /opt/tools/bin/uv pip install --python /opt/packages/bin/python --target /opt/headrace --no-deps /dist/*.whl
# A job's folder holds its entry alone, so that nothing in it can hide another module.
RUN for job in producer backfill; do install -D -m 644 "$job/job.py" "/opt/app/$job/job.py"; done \
 && install -D -m 644 deploy/docker/spark/spark-defaults.conf /opt/app/conf/spark-defaults.conf

FROM base
ENV PATH=/opt/headrace/bin:/opt/packages/bin:${PATH} \
    PYTHONPATH=/opt/headrace \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    SPARK_CONF_DIR=/app/conf
# Hadoop refuses a user without a name. A volume on /warehouse takes over its owner.
RUN groupadd --gid 10001 headrace \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin headrace \
 && install -d -o 10001 -g 10001 /warehouse
COPY --from=packages /opt/packages /opt/packages
COPY --from=jars /opt/jars /opt/jars
COPY --from=build /opt/headrace /opt/headrace
COPY --from=build /opt/app /app
USER 10001:10001
WORKDIR /tmp
CMD ["spark-submit", "/app/producer/job.py", "--help"]
