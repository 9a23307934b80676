"""The check of a provided certificate for its service: extended key usages and host names.

Aqueduct's own CA derives both from the inventory. Another CA may have signed more than the service needs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from aqueduct.errors import Labelled

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_CLIENT, _SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
_ANY = ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE


@dataclass(frozen=True, kw_only=True)
class ServiceOfHost:
    """A service that presents a certificate on a host."""

    principal: str
    serves: bool  # whether it accepts connections
    names: tuple[str, ...]  # under which other hosts connect to it
    foreign_names: frozenset[str]  # of hosts that do not present this principal


def unsuitable(file: str, pem: str, service: ServiceOfHost) -> Labelled | None:
    """Return the fault of the first certificate of a valid chain for a service; None if it has none."""
    certificate, *_ = x509.load_pem_x509_certificates(pem.encode())
    return _wrong_usages(file, certificate, service) or _wrong_names(file, certificate, service)


def _wrong_usages(file: str, certificate: x509.Certificate, service: ServiceOfHost) -> Labelled | None:
    usages = _extended_usages(certificate)
    sentence = ""
    if service.serves and usages is not None and not {_CLIENT, _SERVER} <= usages:
        sentence = (
            f"{file} is not valid for both servers and clients, but {service.principal} is both; "
            "provide a certificate with the extended key usages serverAuth and clientAuth."
        )
    elif not service.serves and (usages is None or _CLIENT not in usages or usages & {_SERVER, _ANY}):
        sentence = (
            f"{file} is not valid for clients only, but {service.principal} accepts no connections; "
            "provide a certificate with the extended key usage clientAuth, without serverAuth."
        )
    return Labelled("provided-certificate-usages", sentence) if sentence else None


def _wrong_names(file: str, certificate: x509.Certificate, service: ServiceOfHost) -> Labelled | None:
    names = _alternative_names(certificate)
    missing = [name for name in dict.fromkeys(service.names) if not _is_valid_for(names, name)]
    own = {*map(str.lower, service.names), *LOCAL_NAMES}
    foreign = [name for name in sorted(service.foreign_names) if name.lower() not in own]
    foreign = [name for name in foreign if _is_valid_for(names, name)]
    sentence = ""
    if foreign:
        sentence = (
            f"{file} is also valid for {_some(foreign)}, where {service.principal} does not run; "
            "provide a certificate with only the names of the service's own hosts."
        )
    elif service.serves and missing:
        sentence = (
            f"{file} is not valid for {_some(missing)}, where other hosts connect to {service.principal}; "
            "provide a certificate with all names of the service as subject alternative names."
        )
    return Labelled("provided-certificate-names", sentence) if sentence else None


def _extended_usages(certificate: x509.Certificate) -> set[x509.ObjectIdentifier] | None:
    """Return the extended key usages; None without the extension: the certificate is valid for all usages."""
    try:
        return set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return None


def _alternative_names(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    dns = names.get_values_for_type(x509.DNSName)
    return {name.lower().removesuffix(".") for name in dns} | {
        str(address) for address in names.get_values_for_type(x509.IPAddress)
    }


def _is_valid_for(names: set[str], host: str) -> bool:
    """Return whether TLS clients accept one of the names for a host; `*` matches its first label."""
    name = host.lower().removesuffix(".")
    _, dot, domain = name.partition(".")
    return name in names or (bool(dot) and f"*.{domain}" in names)


def _some(names: Iterable[str]) -> str:
    first, *others = names
    return f"{first} and {len(others)} more names" if others else first
