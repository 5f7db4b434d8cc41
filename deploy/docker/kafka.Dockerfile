# The Kafka of the local stack as an image: the same locked jars, for those who cannot or will not pull `apache/kafka`.
# It reads KAFKA_*, CLUSTER_ID and KAFKA_HEAP_OPTS as that image does.
# docker build -f deploy/docker/kafka.Dockerfile -t headrace-kafka:local . && KAFKA_IMAGE=headrace-kafka:local docker compose up
ARG JAVA_IMAGE=eclipse-temurin:17-jre-noble

# These two stages are those of spark.Dockerfile, so that both builds share their layers; pyspark holds Ivy.
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

FROM packages AS build
COPY deploy deploy
RUN /opt/packages/bin/python -m deploy.docker.fetch_jars deploy/local/kafka-jars.sha256 /opt/kafka/libs \
 && install -D -m 644 deploy/local/kafka-log4j2.properties /opt/kafka/config/log4j2.properties \
 && install -D -m 755 deploy/docker/kafka/start.sh /opt/kafka/bin/start.sh \
 && install -D -m 755 deploy/docker/kafka/kafka-broker-api-versions.sh /opt/kafka/bin/kafka-broker-api-versions.sh

FROM ${JAVA_IMAGE}
# A volume on the data folder takes over its owner, the one that `apache/kafka` has too.
RUN install -d -o 1000 -g 1000 /var/lib/kafka/data
COPY --from=build /opt/kafka /opt/kafka
USER 1000:1000
EXPOSE 9092
VOLUME /var/lib/kafka/data
CMD ["/opt/kafka/bin/start.sh"]
