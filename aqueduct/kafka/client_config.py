"""Kafka client properties, as settings for the clients that we use.

The file is the one that Kafka's own tools take, with PEM stores (KIP-651); librdkafka's names for a CA, a
certificate, a key, a user and a password do as well. Without a file: PLAINTEXT.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aqueduct import job_files
from aqueduct.errors import Refused

KNOWN = (
    "security.protocol",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.endpoint.identification.algorithm",
    "sasl.mechanism",
    "sasl.jaas.config",
    # librdkafka's
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Each with the login module that a JAAS entry names.
MECHANISMS = {"PLAIN": "plain.Plain", "SCRAM-SHA-256": "scram.Scram", "SCRAM-SHA-512": "scram.Scram"}

_BLANKS = " \t\f"
_JAAS = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(?P<module>[a-z]+\.[A-Za-z]+)LoginModule\s+required"
    r"(?P<options>(?:\s+\w+\s*=\s*\"(?:[^\"\\]|\\.)*\")*)\s*;\s*"
)
_JAAS_OPTION = re.compile(r"(\w+)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")
_ENTRY = re.compile(r"((?:[^\\=: \t\f]|\\.)*+)[ \t\f]*+[=:]?[ \t\f]*+(.*+)", re.DOTALL)


@dataclass(frozen=True)
class Login:
    """A user of SASL (RFC 4616, RFC 5802), and how it proves to be that."""

    mechanism: str  # one of MECHANISMS
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class ClientConfig:
    """The client's way to a cluster. Paths are the driver's; tasks elsewhere have the files' contents."""

    tls: bool = False
    ca: str | None = None  # PEM file of trusted certificates; None: the system's
    certificate: str | None = None  # PEM file of the client's certificate and its chain
    key: str | None = None  # PEM file of its private key; may be the same file
    key_password: str | None = field(default=None, repr=False)
    verify_host: bool = True
    login: Login | None = None  # None: without SASL

    @property
    def protocol(self) -> str:
        """One of PROTOCOLS."""
        encryption = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{encryption}" if self.login else encryption

    def librdkafka(self) -> dict[str, str]:
        """Return settings for confluent-kafka."""
        login = self.login
        settings = {
            "security.protocol": self.protocol.lower(),
            "ssl.ca.location": _here(self.ca),
            "ssl.certificate.location": _here(self.certificate),
            "ssl.key.location": _here(self.key),
            "ssl.key.password": self.key_password,
            "ssl.endpoint.identification.algorithm": "https" if self.verify_host else "none",
            "sasl.mechanism": login.mechanism if login else None,
            "sasl.username": login.user if login else None,
            "sasl.password": login.password if login else None,
        }
        return {name: value for name, value in settings.items() if value is not None}

    def kafka_python(self) -> dict[str, Any]:
        """Return keyword arguments for kafka-python's clients."""
        login = (
            {
                "sasl_mechanism": self.login.mechanism,
                "sasl_plain_username": self.login.user,
                "sasl_plain_password": self.login.password,
            }
            if self.login
            else {}
        )
        return login | {
            "security_protocol": self.protocol,
            "ssl_cafile": _here(self.ca),
            "ssl_certfile": _here(self.certificate),
            "ssl_keyfile": _here(self.key),
            "ssl_password": self.key_password,
            "ssl_check_hostname": self.verify_host,
        }


@dataclass(frozen=True)
class End:
    """A cluster at one end of a flow, and how a client reaches it."""

    role: str  # what sentences call it: "source", "target"
    bootstrap_servers: str
    client_config: ClientConfig = ClientConfig()

    def __str__(self) -> str:
        return f"{self.role} {self.bootstrap_servers}"


def load(path: Path | str | None) -> ClientConfig:
    """Read a file of client properties; Refused if it, or a file that it names, can't be used."""
    if path is None:
        return ClientConfig()
    return checked(parse(_read(path), str(path)), str(path))


def end(role: str, bootstrap_servers: str, path: Path | str | None) -> End:
    """Return an end whose client properties are in a file; Refused as `load`."""
    return End(role, bootstrap_servers, load(path))


def checked(config: ClientConfig, path: str) -> ClientConfig:
    """Return the configuration; Refused unless the files that `path` names in it are PEM, and can be used."""
    for what, pem in (("CA", config.ca), ("certificate", config.certificate), ("key", config.key)):
        if pem is not None and "-----BEGIN " not in _read(pem, f" ({what} of {path})"):
            raise Refused(
                "client-config-invalid",
                f"{pem} ({what} of {path}) is not PEM: convert it with openssl or keytool.",
            )
        if pem is not None:
            job_files.remember(pem)
    if config.certificate and config.key:
        _check_key(config.certificate, config.key, config.key_password, path)
    return config


def _check_key(certificate: str, key: str, password: str | None, path: str) -> None:
    """Open the key, for a client that can't would try to connect until its time is over."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509 import load_pem_x509_certificate
    except ImportError:  # on hosts that have no more than brokers need
        return
    text, why = _read(key), ""
    sealed = "ENCRYPTED" in text
    if sealed and not password:
        why = "it wants a password"
    else:
        try:
            opened = load_pem_private_key(text.encode(), (password or "").encode() if sealed else None)
            own = load_pem_x509_certificate(_read(certificate).encode()).public_key()
            if opened.public_key() != own:
                why = "the key is another certificate's"
        except ValueError:
            why = "its password is wrong, or a file is damaged" if sealed else "one of both is damaged"
        except UnsupportedAlgorithm:
            return  # the client may know it
    if why:
        raise Refused(
            "client-key-mismatch", f"The key {key} can't be used with {certificate} ({path}): {why}."
        )


def parse(text: str, where: str) -> ClientConfig:
    """Parse the text of client properties; `where` names the text in a refusal."""
    properties = parse_properties(text)
    for name in properties:
        if name not in KNOWN:
            raise Refused(
                "client-config-invalid",
                f"{where}: property {name} is not supported; supported are {', '.join(KNOWN)}.",
            )
    for store in ("keystore", "truststore"):
        kind = properties.get(f"ssl.{store}.type", "JKS")  # JKS is Kafka's default
        if f"ssl.{store}.location" in properties and kind != "PEM":
            raise Refused(
                "client-config-invalid",
                f"{where}: a {kind} {store} can't be used; give PEM and ssl.{store}.type=PEM.",
            )
    protocol = properties.get("security.protocol", "PLAINTEXT")
    if protocol.upper() not in PROTOCOLS:
        raise Refused(
            "client-config-invalid",
            f"{where}: security.protocol={protocol} is none of {', '.join(PROTOCOLS)}.",
        )
    identification = properties.get("ssl.endpoint.identification.algorithm", "https")
    if identification not in ("https", "none", ""):
        raise Refused(
            "client-config-invalid", f"{where}: ssl.endpoint.identification.algorithm must be https or empty."
        )
    keystore = properties.get("ssl.keystore.location")
    certificate = properties.get("ssl.certificate.location", keystore)
    key = properties.get("ssl.key.location", keystore)
    if (certificate is None) != (key is None):
        raise Refused(
            "client-config-invalid",
            f"{where}: ssl.certificate.location and ssl.key.location are only of use together.",
        )
    return ClientConfig(
        tls=protocol.upper().endswith("SSL"),
        ca=properties.get("ssl.ca.location", properties.get("ssl.truststore.location")),
        certificate=certificate,
        key=key,
        key_password=properties.get("ssl.key.password"),
        verify_host=identification == "https",
        login=_login(properties, where) if protocol.upper().startswith("SASL") else None,
    )


def _login(properties: Mapping[str, str], where: str) -> Login:
    """Parse a login, and never show what the properties say: there is a password in them."""
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        raise Refused(
            "client-config-invalid",
            f"{where}: sasl.mechanism={mechanism} is none of {', '.join(MECHANISMS)}.",
        )
    if (entry := properties.get("sasl.jaas.config")) is not None:
        found = _JAAS.fullmatch(entry)
        if not found or found["module"] != MECHANISMS[mechanism]:
            raise Refused(
                "client-config-invalid",
                f"{where}: sasl.jaas.config must be org.apache.kafka.common.security.{MECHANISMS[mechanism]}"
                f'LoginModule required username="..." password="..."; for {mechanism}.',
            )
        options = {
            name: re.sub(r"\\(.)", r"\1", value) for name, value in _JAAS_OPTION.findall(found["options"])
        }
        user, password = options.get("username"), options.get("password")
    else:
        user, password = properties.get("sasl.username"), properties.get("sasl.password")
    if not user or password is None:
        raise Refused(
            "client-config-invalid", f"{where}: SASL takes a username and a password, in sasl.jaas.config."
        )
    return Login(mechanism, user, password)


def parse_properties(text: str) -> dict[str, str]:
    """Parse Java's properties; of a key that is there twice the last one wins."""
    return dict(entries(text))


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of Java's properties: comments; `=`, `:` or blanks; continued lines; escapes."""
    for line in _logical_lines(text):
        key, value = _ENTRY.fullmatch(line).groups()  # type: ignore[union-attr]
        yield _unescape(key), _unescape(value)


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    for line in re.split(r"\r\n|\r|\n", text):
        line = line.lstrip(_BLANKS)
        if not joined and line[:1] in ("", "#", "!"):
            continue
        joined += line
        if (len(joined) - len(joined.rstrip("\\"))) % 2:  # an unescaped backslash: continues in the next line
            joined = joined[:-1]
        else:
            yield joined
            joined = ""
    if joined:
        yield joined


def _unescape(text: str) -> str:
    controls = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
    return re.sub(
        r"\\(?:u([0-9a-fA-F]{4})|(.?))",
        lambda match: chr(int(match[1], 16)) if match[1] else controls.get(match[2], match[2]),
        text,
    )


def _here(path: str | None) -> str | None:
    return path and job_files.path(path)


def _read(path: Path | str, role: str = "") -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:  # the latter of a name that no file can have
        reason = getattr(error, "strerror", None) or error
        raise Refused("client-config-unreadable", f"{path}{role} can't be read: {reason}.") from None
