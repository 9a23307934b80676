"""Certificates of services, and of the authority, as the hosts have them on disk."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from aqueduct.control_node.status.model import AUTHORITY, DeclaredObject, Figure, ObjectStatus, StatusFinding
from aqueduct.control_node.status.shared_checks import EstateFacts, moment, silences, unanswered

if TYPE_CHECKING:
    from cryptography import x509

AUTHORITY_FILE = "ca.pem"
FOLDER = "/etc/aqueduct"


def judge_certificate(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    is_authority = declared.details.get("is") == AUTHORITY
    file = AUTHORITY_FILE if is_authority else f"{declared.details['principal']}.pem"
    findings = silences(facts, declared.hosts)
    ends: list[float] = []
    for host in declared.hosts:
        if not facts.of(host).has_answered:
            continue
        try:
            host_ends = list(_ends(facts, host, file))
        except ValueError:
            findings.append(
                unanswered(declared, host, f"{file} contains no certificate", f"ls -l {FOLDER}/*/tls/{file}")
            )
            continue
        if not host_ends:
            cause = facts.of(host).unasked or f"{file} was not found"
            findings.append(unanswered(declared, host, cause, f"ls -l {FOLDER}/*/tls/{file}"))
        ends += host_ends
    figures: dict[str, Figure] = {}
    if ends:
        days = (min(ends) - facts.seconds) / 86400
        figures |= {"days_left": int(days // 1), "ends": moment(min(ends))}
        if days < facts.limits.certificate_days:
            findings.append(_expiring(declared, days, min(ends), is_authority=is_authority))
    return ObjectStatus(declared=declared, findings=tuple(findings), figures=figures)


def _ends(facts: EstateFacts, host: str, file: str) -> Iterator[float]:
    """Yield when the certificate of each file of this name ends. In a chain, the own one is the first."""
    if file in facts.of(host).certificate_ends:
        yield facts.of(host).certificate_ends[file]
    for path, pem in facts.of(host).certificates.items():
        if PurePosixPath(path).name == file:
            from cryptography import x509  # which hosts that only read metrics lack

            certificates = x509.load_pem_x509_certificates(pem.encode())
            # While an authority is replaced, its file has the old and the new one: the newest one counts.
            own = certificates if file == AUTHORITY_FILE else certificates[:1]
            yield max(_end(own))


def _end(certificates: "Iterable[x509.Certificate]") -> Iterator[float]:
    for certificate in certificates:
        yield (certificate.not_valid_after_utc - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()


def _expiring(declared: DeclaredObject, days: float, end: float, *, is_authority: bool) -> StatusFinding:
    when = f"has expired on {moment(end)}" if days < 0 else f"expires in {days:.0f} days, on {moment(end)}"
    if is_authority:
        return StatusFinding(
            id="authority-expiring",
            sentence=f"The certificate authority {when}.",
            fix="ansible-playbook playbooks/authority.yml",
        )
    return StatusFinding(
        id="certificate-expiring",
        sentence=f"The certificate of {declared.name} {when}.",
        fix="ansible-playbook playbooks/site.yml",
    )
