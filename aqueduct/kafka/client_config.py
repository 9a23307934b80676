"""Kafka client properties, as settings for the clients that we use.

The file is the one that Kafka's own tools take, with PEM stores in files or inline (KIP-651); librdkafka's
names for a CA, a certificate, a key, a user and a password do as well. Without a file: PLAINTEXT. Other
properties are reported and ignored, as by Kafka's tools.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from aqueduct.common import job_files
from aqueduct.errors import Refused, labelled

# Of librdkafka, with TLS and login. An address that does not answer is reported after this time. The default
# of librdkafka is 30 seconds.
CONNECTION_SETUP_MILLISECONDS = 10_000

KNOWN = (
    "bootstrap.servers",  # accepted, but the command line has the servers
    "client.id",
    "request.timeout.ms",
    "security.protocol",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
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

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----")
_PEM_COLUMNS = 64
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


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """The client's way to a cluster. Paths are the driver's; tasks elsewhere have the files' contents."""

    tls: bool = False
    # PEM files: trusted certificates (None: the system's), the client's certificate and its chain, and its
    # private key, which may be in the same file. `parse` returns PEM that is inline itself.
    ca: str | None = None
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    verify_host: bool = True
    login: Login | None = None  # None: without SASL
    client_id: str | None = None  # None: each command's own
    request_timeout_ms: int | None = None  # None: each command's own

    @property
    def protocol(self) -> str:
        """One of PROTOCOLS."""
        encryption = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{encryption}" if self.login else encryption

    def librdkafka(self) -> dict[str, str]:
        """Return settings for confluent-kafka."""
        login, timeout = self.login, self.request_timeout_ms
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
            "client.id": self.client_id,
            "socket.connection.setup.timeout.ms": str(CONNECTION_SETUP_MILLISECONDS),
            "socket.timeout.ms": str(min(max(timeout, 10), 300_000)) if timeout else None,  # its limits
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
        named = {"client_id": self.client_id} if self.client_id else {}
        return (
            login
            | named
            | {
                "security_protocol": self.protocol,
                "ssl_cafile": _here(self.ca),
                "ssl_certfile": _here(self.certificate),
                "ssl_keyfile": _here(self.key),
                "ssl_password": self.key_password,
                "ssl_check_hostname": self.verify_host,
            }
        )


@dataclass(frozen=True)
class End:
    """A cluster at one end of a flow, and how a client reaches it."""

    role: str  # what sentences call it: "source", "target"
    bootstrap_servers: str
    client_config: ClientConfig = ClientConfig()

    def __str__(self) -> str:
        return f"{self.role} {self.bootstrap_servers}"


def load(path: Path | str | None, *, for_tasks: bool = False) -> ClientConfig:
    """Read a file of client properties; Refused if it, or a file that it names, can't be used.

    `for_tasks`: tasks connect with it. Without that its key and certificates stay on this host.
    """
    if path is None:
        return ClientConfig()
    text = _read(path)
    config = parse(text, str(path))
    for name, hint in ignored(text):
        message = f"{path}: Aqueduct does not use the property {name}{hint}"
        print(f"aqueduct: {labelled('client-property-ignored', message)}", file=sys.stderr, flush=True)
    stored = checked(_stored(config), str(path))
    if for_tasks:
        for pem in filter(None, (stored.ca, stored.certificate, stored.key)):
            job_files.remember(pem)
    else:
        for file in filter(None, (str(path), stored.certificate, stored.key)):  # a key may be in each
            job_files.keep(file)
    return stored


def ignored(text: str) -> Iterator[tuple[str, str]]:
    """Yield the properties that no client here uses, each with the end of a sentence about it."""
    for name in parse_properties(text):
        if name not in KNOWN:
            near = get_close_matches(name, KNOWN, 1, 0.85)
            yield name, f": did you mean {near[0]}?" if near else "."


def _stored(config: ClientConfig) -> ClientConfig:
    """Keep inline PEM in files in memory, because clients read files."""
    inline = {
        name: job_files.in_memory(pem.encode())
        for name in ("ca", "certificate", "key")
        if (pem := getattr(config, name)) and "-----BEGIN " in pem
    }
    return replace(config, **inline)  # type: ignore[arg-type]


def end(role: str, bootstrap_servers: str, path: Path | str | None, *, for_tasks: bool = False) -> End:
    """Return an end whose client properties are in a file; see `load`."""
    return End(role, bootstrap_servers, load(path, for_tasks=for_tasks))


def checked(config: ClientConfig, path: str) -> ClientConfig:
    """Return the configuration; Refused unless the files that `path` names in it are PEM, and can be used."""
    for role, pem in (("CA", config.ca), ("certificate", config.certificate), ("key", config.key)):
        if pem is not None and "-----BEGIN " not in _read(pem, f" ({role} of {path})"):
            raise Refused(
                "client-config-invalid",
                f"{pem} ({role} of {path}) is not a PEM file. Convert it with openssl or keytool.",
            )
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
    text, reason = _read(key), ""
    sealed = "ENCRYPTED" in text
    if sealed and not password:
        reason = "the key needs a password; set ssl.key.password"
    else:
        try:
            opened = load_pem_private_key(text.encode(), (password or "").encode() if sealed else None)
            own = load_pem_x509_certificate(_read(certificate).encode()).public_key()
            if opened.public_key() != own:
                reason = "the key does not match the certificate"
        except ValueError:
            reason = (
                ("the password of the key is wrong, or one of the files is damaged")
                if sealed
                else "one of the two is damaged"
            )
        except UnsupportedAlgorithm:
            return  # the client may know it
    if reason:
        raise Refused(
            "client-key-mismatch",
            f"The key {_shown(key, 'ssl.keystore.key')} cannot be used with "
            f"{_shown(certificate, 'ssl.keystore.certificate.chain')} ({path}): {reason}.",
        )


def parse(text: str, where: str) -> ClientConfig:
    """Parse the text of client properties; `where` names the text in a refusal."""
    properties = parse_properties(text)
    for store in ("keystore", "truststore"):
        kind = properties.get(f"ssl.{store}.type", "JKS")  # JKS is Kafka's default
        if f"ssl.{store}.location" in properties and kind != "PEM":
            raise Refused(
                "client-config-invalid",
                f"{where}: a {store} of type {kind} cannot be used; use a PEM file, and set "
                f"ssl.{store}.type=PEM.",
            )
    protocol = properties.get("security.protocol", "PLAINTEXT")
    if protocol.upper() not in PROTOCOLS:
        raise Refused(
            "client-config-invalid",
            f"{where}: security.protocol={protocol} is not valid; use {', '.join(PROTOCOLS)}.",
        )
    # Java compares the name without regard to case, and Kafka trims passwords.
    identification = properties.get("ssl.endpoint.identification.algorithm", "https").lower()
    if identification not in ("https", "none", ""):
        raise Refused(
            "client-config-invalid", f"{where}: ssl.endpoint.identification.algorithm must be https or empty."
        )
    inline = _inline(properties, where)
    keystore = properties.get("ssl.keystore.location")
    certificate = properties.get("ssl.certificate.location", inline.get("certificate.chain", keystore))
    key = properties.get("ssl.key.location", inline.get("key", keystore))
    if (certificate is None) != (key is None):
        raise Refused(
            "client-config-invalid",
            f"{where}: set ssl.certificate.location and ssl.key.location together.",
        )
    return ClientConfig(
        tls=protocol.upper().endswith("SSL"),
        ca=properties.get(
            "ssl.ca.location", inline.get("certificates", properties.get("ssl.truststore.location"))
        ),
        certificate=certificate,
        key=key,
        key_password=properties["ssl.key.password"].strip() if "ssl.key.password" in properties else None,
        verify_host=identification == "https",
        login=_login(properties, where) if protocol.upper().startswith("SASL") else None,
        client_id=properties.get("client.id") or None,
        request_timeout_ms=_milliseconds(properties, "request.timeout.ms", where),
    )


def _inline(properties: Mapping[str, str], where: str) -> dict[str, str]:
    """Return PEM that the properties contain (KIP-651), by the end of the property's name.

    Refused as Kafka does: with a store of another type or in a file, or a key without its certificate.
    """
    pem_by_name: dict[str, str] = {}
    for store, names in (("keystore", ("key", "certificate.chain")), ("truststore", ("certificates",))):
        given = [name for name in names if f"ssl.{store}.{name}" in properties]
        if not given:
            continue
        first = f"ssl.{store}.{given[0]}"
        if properties.get(f"ssl.{store}.type") != "PEM":
            raise Refused("client-config-invalid", f"{where}: {first} needs ssl.{store}.type=PEM.")
        if f"ssl.{store}.location" in properties:
            raise Refused("client-config-invalid", f"{where}: set {first} or ssl.{store}.location, not both.")
        if len(given) < len(names):
            raise Refused(
                "client-config-invalid",
                f"{where}: set ssl.keystore.key and ssl.keystore.certificate.chain together.",
            )
        pem_by_name |= {
            name: _pem(properties[f"ssl.{store}.{name}"], f"{where}: ssl.{store}.{name}") for name in given
        }
    return pem_by_name


def _pem(text: str, where: str) -> str:
    """Return PEM as OpenSSL reads it: in a property, line breaks may be missing or blanks."""
    blocks = [(label, re.sub(r"\s", "", content)) for label, content in _PEM.findall(text)]
    if not blocks:
        raise Refused(
            "client-config-invalid",
            f"{where} is not PEM text; a private key must be in the PKCS #8 format (openssl pkcs8 -topk8).",
        )
    columns = re.compile(f".{{1,{_PEM_COLUMNS}}}")
    lines = (
        (f"-----BEGIN {label}-----", *columns.findall(content), f"-----END {label}-----")
        for label, content in blocks
    )
    return "".join(f"{line}\n" for block in lines for line in block)


def _milliseconds(properties: Mapping[str, str], name: str, where: str) -> int | None:
    value = properties.get(name)
    if value is None:
        return None
    if not re.fullmatch(r"\s*[0-9]{1,9}\s*", value) or int(value) == 0:
        raise Refused("client-config-invalid", f"{where}: {name} must be a number of milliseconds.")
    return int(value)


def _login(properties: Mapping[str, str], where: str) -> Login:
    """Parse a login, and never show what the properties say: there is a password in them."""
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        raise Refused(
            "client-config-invalid",
            f"{where}: sasl.mechanism={mechanism} is not valid; use {', '.join(MECHANISMS)}.",
        )
    if (entry := properties.get("sasl.jaas.config")) is not None:
        jaas = _JAAS.fullmatch(entry)
        if not jaas or jaas["module"] != MECHANISMS[mechanism]:
            raise Refused(
                "client-config-invalid",
                f"{where}: sasl.jaas.config must be org.apache.kafka.common.security.{MECHANISMS[mechanism]}"
                f'LoginModule required username="..." password="..."; for {mechanism}.',
            )
        options = {
            name: re.sub(r"\\(.)", r"\1", value) for name, value in _JAAS_OPTION.findall(jaas["options"])
        }
        user, password = options.get("username"), options.get("password")
    else:
        user, password = properties.get("sasl.username"), properties.get("sasl.password")
    if not user or password is None:
        raise Refused(
            "client-config-invalid",
            f"{where}: SASL needs a username and a password; set them in sasl.jaas.config.",
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


def _shown(path: str, name: str) -> str:
    """Return a path for a sentence; the property's name where the PEM is inline."""
    return name if path.startswith(f"/proc/{os.getpid()}/fd/") else path


def _here(path: str | None) -> str | None:
    return path and job_files.path(path)


def _read(path: Path | str, role: str = "") -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:  # the latter of a name that no file can have
        reason = getattr(error, "strerror", None) or error
        raise Refused("client-config-unreadable", f"{path}{role} cannot be read: {reason}.") from None
