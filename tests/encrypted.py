"""A Kafka and a Postgres of one's own that are reached by TLS and a password, as production's are."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from sqlalchemy.engine import make_url

from deploy.local import accounts, scratch
from deploy.local.kafka import Kafka
from deploy.local.kafka_config import KafkaOptions
from deploy.local.postgres import Postgres, PostgresOptions

ACLS = Path(__file__).parents[1] / "deploy" / "kafka" / "acls.sh"
PASSWORD = "correct-horse"
USERS = ("headrace-owner", "headrace-worker", "headrace-producer", "headrace-operator")


@dataclass(frozen=True)
class Encrypted:
    """`ca` has signed both servers' certificates, `other_ca` has not; they are for 127.0.0.1, not for its name."""

    folder: Path
    kafka: Kafka
    postgres: Postgres

    @property
    def ca(self) -> str:
        """The right authority."""
        return str(self.folder / "ca.pem")

    @property
    def other_ca(self) -> str:
        """Somebody else's."""
        return str(self.folder / "other-ca.pem")

    @property
    def brokers(self) -> str:
        """The listener that wants TLS and a password."""
        return f"127.0.0.1:{self.kafka.proxied_port}"

    def of_kafka(self, program: str, **changed: str) -> dict[str, str]:
        """The settings with which a program reaches Kafka."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.brokers,
            "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
            "KAFKA_SASL_USERNAME": f"headrace-{program}",
            "KAFKA_SASL_PASSWORD": PASSWORD,
            "KAFKA_SSL_CA_LOCATION": self.ca,
            **changed,
        }

    def verified(self, url: str, ca: str | None = None, **changed: str) -> str:
        """An address with what makes the client sure of the server."""
        asked = make_url(url).update_query_dict({"sslmode": "verify-full", "sslrootcert": ca or self.ca})
        return asked.set(**changed).render_as_string(hide_password=False)  # type: ignore[arg-type]


@contextmanager
def encrypted() -> Iterator[Encrypted]:
    """Yield both, with users and the rights of `deploy/kafka/acls.sh`; nothing of them is left afterwards."""
    with scratch.folder() as folder:
        _certify(folder)
        postgres = Postgres(folder / "postgres", PostgresOptions(_postgres_settings(folder))).start()
        kafka = Kafka(folder / "kafka")
        kafka = Kafka(folder / "kafka", KafkaOptions(_kafka_settings(folder), kafka.proxied_port)).start()
        _authorize(AdminClient({"bootstrap.servers": kafka.bootstrap_servers}))
        yield Encrypted(folder, kafka, postgres)


def _certify(folder: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trustme.CA().cert_pem.write_to_path(folder / "other-ca.pem")
    issued = authority.issue_cert("127.0.0.1")
    # Java reads keys in PKCS #8 alone.
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    for name, content in (("key.pem", private), ("cert.pem", chain), ("both.pem", private + chain)):
        folder.joinpath(name).touch(mode=0o600)
        folder.joinpath(name).write_bytes(content)
    for name in ("key.pem", "cert.pem"):
        accounts.hand_over(folder / name, accounts.other_account())


def _postgres_settings(folder: Path) -> dict[str, str]:
    return {"ssl": "on", "ssl_cert_file": str(folder / "cert.pem"), "ssl_key_file": str(folder / "key.pem")}


def _kafka_settings(folder: Path) -> dict[str, str]:
    listener = "listener.name.proxied."
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:SASL_SSL",
        f"{listener}sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{listener}scram-sha-512.sasl.jaas.config": login,
        f"{listener}ssl.keystore.type": "PEM",
        f"{listener}ssl.keystore.location": str(folder / "both.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The listener without a password is the tests' own.
        "super.users": "User:ANONYMOUS",
    }


def _authorize(admin: AdminClient) -> None:
    wanted = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    users: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user, wanted, PASSWORD.encode()) for user in USERS
    ]
    for future in admin.alter_user_scram_credentials(users).values():
        future.result()
    bindings = list(_bindings())
    for made in admin.create_acls(bindings).values():
        made.result()


def _bindings() -> Iterator[AclBinding]:
    """The rights as the shipped file says them."""
    words = argparse.ArgumentParser()
    words.add_argument("user")
    words.add_argument("--operation", action="append")
    words.add_argument("--topic")
    words.add_argument("--group")
    words.add_argument("--resource-pattern-type", default="literal")
    for line in re.findall(r"^allow (headrace-.+)$", ACLS.read_text(), re.MULTILINE):
        said = words.parse_args(shlex.split(line))
        kind = ResourceType.TOPIC if said.topic else ResourceType.GROUP
        pattern = ResourcePatternType[said.resource_pattern_type.upper()]
        for operation in said.operation:
            word = AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()]
            yield AclBinding(
                kind, said.topic or said.group, pattern, f"User:{said.user}", "*", word, AclPermissionType.ALLOW
            )
