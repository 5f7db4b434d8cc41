# `python -m worker`, `python -m simulator` and `headrace`: no Java, no compiler, no package manager of ours.
# docker build -f deploy/docker/worker.Dockerfile -t headrace-worker:local .
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# The locked packages: a layer that a change of our own code leaves alone.
FROM ${PYTHON_IMAGE} AS packages
ENV UV_PROJECT_ENVIRONMENT=/opt/packages \
    UV_PYTHON=/usr/local/bin/python \
    UV_PYTHON_DOWNLOADS=never \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1
COPY deploy/docker/build-tools.txt /tmp/
RUN python -m venv /opt/tools \
 && /opt/tools/bin/pip install --no-cache-dir --require-hashes -r /tmp/build-tools.txt
WORKDIR /src
COPY pyproject.toml uv.lock ./
RUN /opt/tools/bin/uv sync --locked --no-dev --extra worker --no-install-project

FROM packages AS build
COPY . .
RUN /opt/tools/bin/uv build --wheel --require-hashes --build-constraints /tmp/build-tools.txt --out-dir /dist \
 && /opt/tools/bin/uv pip install --python /opt/packages/bin/python --target /opt/headrace --no-deps /dist/*.whl

FROM ${PYTHON_IMAGE}
ENV PATH=/opt/headrace/bin:/opt/packages/bin:${PATH} \
    PYTHONPATH=/opt/headrace \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1
RUN groupadd --gid 10001 headrace \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin headrace
COPY --from=packages /opt/packages /opt/packages
COPY --from=build /opt/headrace /opt/headrace
# By number, so that an orchestrator can see that it is not root.
USER 10001:10001
WORKDIR /tmp
CMD ["python", "-m", "worker"]
