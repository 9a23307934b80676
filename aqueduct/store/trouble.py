"""Sentences for an object store's errors, without the secrets that their text may hold."""

import re
from dataclasses import dataclass

from aqueduct.store.url import CLOUDS, Location


@dataclass(frozen=True)
class Trouble:
    what: str  # "refuses ..."; follows the store's name
    passing: bool = False  # trying again may help
    settings: bool = False  # wrong from the beginning: a name, credentials, rights, a clock


_CREDENTIALS = (
    "refuses these credentials ({code}); see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_PROFILE"
)
_BUCKET = "names a {kind} that is not there; see its spelling and the endpoint"
_REGION = "is in another region ({code}); set AWS_REGION"
_CLOCK = "refuses this machine's clock: it differs too much from the server's; synchronise it (NTP)"
# By what S3, Google and Azure call it.
_CODES = {
    **dict.fromkeys(("NoSuchBucket", "ContainerNotFound", "InvalidBucketName"), _BUCKET),
    **dict.fromkeys(("RequestTimeTooSkewed", "RequestExpired"), _CLOCK),
    **dict.fromkeys(
        ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"), _REGION
    ),
    **dict.fromkeys(
        (
            *(
                "InvalidAccessKeyId",
                "SignatureDoesNotMatch",
                "InvalidToken",
                "ExpiredToken",
                "TokenRefreshRequired",
            ),
            *("AuthenticationFailed", "InvalidSecurity", "InvalidClientTokenId"),
        ),
        _CREDENTIALS,
    ),
}
RIGHTS = {
    "read": "read its objects (S3: s3:GetObject)",
    "write": "create objects in it (S3: s3:PutObject)",
    "list": "list its objects (S3: s3:ListBucket)",
    "move": "copy and delete its objects (S3: s3:GetObject, s3:PutObject, s3:DeleteObject)",
    "remove": "delete its objects (S3: s3:DeleteObject)",
}
_TLS = re.compile(r"invalid peer certificate: (\w+)|InvalidCertificate\(\s*(\w+)")
_HANDSHAKE = re.compile(r"InvalidContentType|InvalidMessage|received corrupt message|AlertReceived")


def explain(text: str, location: Location, action: str) -> Trouble:
    """Explain `text`, what object_store tells of an error, with its debug form; `action`: one of RIGHTS."""
    code = _found(r"<Code>(\w+)</Code>", text) or _found(r'"reason":\s*"(\w+)"', text)
    status = int(_found(r"status(?: code)?: (\d{3})", text) or 0)
    if code in _CODES:
        words = _CODES[code].format(code=code, kind=CLOUDS.get(location.scheme, "bucket"))
        return Trouble(words, settings=True)
    if certificate := _TLS.search(text):
        return Trouble(
            f"has a certificate that is not trusted ({certificate[1] or certificate[2]}); "
            "name the CA's PEM file in AWS_CA_BUNDLE or SSL_CERT_FILE",
            settings=True,
        )
    if _HANDSHAKE.search(text):
        return Trouble("does not speak TLS as asked; see the endpoint's scheme and port", settings=True)
    if "BadScheme" in text:
        return Trouble("has an endpoint of http://; set AWS_ALLOW_HTTP=true if that is meant", settings=True)
    if status == 507:
        return Trouble("has no room left; make room")
    if status in (401, 403):
        remedy = f"give these credentials the right to {RIGHTS[action]}"
        return Trouble(f"does not let us {action} ({code or status}); {remedy}", settings=True)
    if status == 404:
        return Trouble(_BUCKET.format(kind=CLOUDS.get(location.scheme, "bucket")), settings=True)
    if status:
        passing = status >= 500 or status in (408, 409, 429) or code in ("SlowDown", "RequestTimeout")
        return Trouble(f"answers {status}{f' ({code})' if code else ''}", passing)
    return Trouble(f"can't be reached: {_network(text)}", passing=True)


def _network(text: str) -> str:
    if "failed to lookup address" in text or "dns error" in text:
        return "its host's name is not known"
    if "ConnectionRefused" in text:
        return "the connection is refused"
    if re.search(r"kind: Timeout|TimedOut|operation timed out", text):
        return "no answer in time"
    if re.search(r"ConnectionReset|IncompleteMessage|UnexpectedEof|BrokenPipe|ConnectionAborted", text):
        return "the connection broke"
    system = _found(r'message: "([\w ,.-]+)"', text)
    return system or "an error of the network"


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None
