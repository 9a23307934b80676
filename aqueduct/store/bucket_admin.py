"""Administers buckets and their policies, over S3's REST API.

Uses Python's own library: a host of an object store has no SDK, and needs few requests.
Signatures: Amazon S3 API Reference, "Authenticating Requests (AWS Signature Version 4)".
"""

import base64
import hashlib
import hmac
import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from aqueduct.common.deadlines import within
from aqueduct.errors import Failed
from aqueduct.store.error_messages import FINAL_SERVER_ERRORS

REQUEST_SECONDS = 10
ANSWER_SECONDS = 30  # for a complete answer
MOST_BYTES = 16 << 20  # of it
POLL_SECONDS = 0.5
LOCKABLE = {"x-amz-bucket-object-lock-enabled": "true"}  # for the creation of a bucket
# The codes of S3, and the remedies.
REMEDIES = {
    "AccessDenied": "This user has no permission. Use an administrator of the store.",
    "BucketAlreadyExists": "The bucket belongs to another owner. Choose another name.",
    "InvalidAccessKeyId": "The store does not have this user. Check the access key.",
    "InvalidBucketState": "Object lock cannot be enabled for this bucket. Declare another bucket.",
    "InvalidBucketName": "Rename the bucket: 3 to 63 lower-case letters, digits, dots and hyphens.",
    "RequestTimeTooSkewed": "The clocks of this host and of the store differ. Synchronise them.",
    "SignatureDoesNotMatch": "The secret key differs from the secret key of the store. Check it.",
}
UNUSABLE_BUCKET = {"BucketAlreadyExists", "InvalidBucketState", "InvalidBucketName"}


@dataclass(frozen=True, kw_only=True)
class S3Server:
    """An S3 server (`address`: host:port, with TLS) and the credentials of its user."""

    address: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    ca_file: str | None = None


class BucketAdmin:
    def __init__(self, endpoint: S3Server) -> None:
        self._endpoint = endpoint
        self._trust = ssl.create_default_context(cafile=endpoint.ca_file)

    def wait(self, seconds: float) -> None:
        """Wait until the server answers a signed request. Failed after `seconds`, or if it rejects it."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._ask("GET", "/")
                return
            except _Silent:
                if time.monotonic() > deadline:
                    raise
            time.sleep(POLL_SECONDS)

    def ensure(
        self, bucket: str, policy: Mapping[str, Any] | None, locked_days: int = 0, *, check_only: bool = False
    ) -> bool:
        """Create a bucket, and set its policy and its object lock. Return whether this changes anything."""
        # Not HEAD: its answer has no body with the error.
        exists = self._ask("GET", f"/{bucket}", "location") is not None
        stored_policy = self._ask("GET", f"/{bucket}", "policy") if exists else None
        same = (json.loads(stored_policy) if stored_policy else None) == policy
        if not check_only and not exists:
            self._ask("PUT", f"/{bucket}", more=LOCKABLE if locked_days else {})
        if not check_only and not same:
            if policy is None:
                self._ask("DELETE", f"/{bucket}", "policy")
            else:
                self._ask("PUT", f"/{bucket}", "policy", json.dumps(policy).encode())
        as_long = (self._locked_days(bucket) if exists else 0) == locked_days
        if not check_only and not as_long:
            self._ask("PUT", f"/{bucket}", "object-lock", _lock(locked_days))
        return not (exists and same and as_long)

    def _locked_days(self, bucket: str) -> int:
        """Return the days of the object lock; 0 without a lock."""
        lock = self._ask("GET", f"/{bucket}", "object-lock") or b""
        days = re.search(rb"<Days>(\d+)</Days>", lock) if b"<Mode>COMPLIANCE</Mode>" in lock else None
        return int(days[1]) if days else 0

    def _ask(
        self,
        method: str,
        path: str,
        query: str = "",
        body: bytes = b"",
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes | None:
        """Return the body of the answer; None if S3 answers 404."""
        target = path + (f"?{query}" if query else "")
        headers = signed_headers(
            self._endpoint, datetime.now(UTC), method, path, query=query, body=body, more=more
        )
        if body:
            digest = hashlib.md5(body, usedforsecurity=False).digest()
            headers["content-md5"] = base64.b64encode(digest).decode()
        request = urllib.request.Request(
            f"https://{self._endpoint.address}{target}", body or None, headers, method=method
        )
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._trust)
        )
        call = f"{method} {target} at {self._endpoint.address}"
        try:
            status, content = within(ANSWER_SECONDS, lambda: _exchange(opener, request))
        except (urllib.error.URLError, OSError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                flaw = f"this host does not trust the certificate of the server ({reason.verify_message})"
                raise Failed(
                    "store-access-refused", f"{call} failed: {flaw}. Check the certificate of the CA."
                ) from error
            raise _Silent(f"{call} failed: no answer ({reason}). Check that the server runs.") from error
        if status == 404:
            return None
        if status >= 400:
            raise _answered(call, self._endpoint.access_key, status, content)
        return bytes(content)


def _exchange(opener: urllib.request.OpenerDirector, request: urllib.request.Request) -> tuple[int, bytes]:
    """Return the status and the body of an answer, up to MOST_BYTES."""
    try:
        with opener.open(request, timeout=REQUEST_SECONDS) as answer:
            return answer.status, answer.read(MOST_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(MOST_BYTES)


def _lock(days: int) -> bytes:
    """Return the document that locks new objects for `days`; 0: new objects are not locked."""
    retention = f"<DefaultRetention><Mode>COMPLIANCE</Mode><Days>{days}</Days></DefaultRetention>"
    rule = f"<Rule>{retention}</Rule>" if days else ""
    return (
        '<ObjectLockConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}</ObjectLockConfiguration>"
    ).encode()


class _Silent(Failed):
    """The error of a server that does not answer, or cannot answer now."""

    id = "store-request-failed"


def _answered(call: str, user: str, status: int, body: bytes) -> Failed:
    text = body.decode(errors="replace")
    code, message = (
        (found[1] if (found := re.search(rf"<{tag}>([^<]*)</{tag}>", text)) else "")
        for tag in ("Code", "Message")
    )
    remedy = REMEDIES.get(code, "Check the log of the server.")
    error = f"{code or f'HTTP {status}'}{f' ({message})' if message else ''}"
    sentence = f"{call} as {user} failed: {error}. {remedy}"
    if status >= 500 and status not in FINAL_SERVER_ERRORS:
        return _Silent(sentence)
    if code in UNUSABLE_BUCKET:
        return Failed("bucket-unusable", sentence)
    id_ = "store-access-refused" if code in REMEDIES else "store-request-failed"
    return Failed(id_, sentence)


def signed_headers(
    endpoint: S3Server,
    moment: datetime,
    method: str,
    path: str,
    *,
    query: str = "",
    body: bytes = b"",
    more: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the headers of a signed request, with `more` (AWS Signature Version 4).

    `path` and `query` must need no escaping; `query` holds one parameter, with or without a value.
    """
    digest = hashlib.sha256(body).hexdigest()
    stamp = moment.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": endpoint.address, "x-amz-content-sha256": digest, "x-amz-date": stamp, **more}
    headers = dict(sorted(headers.items()))
    names = ";".join(headers)
    canonical = "\n".join(
        [
            *(method, path, query if "=" in query or not query else f"{query}="),
            *(f"{name}:{value}" for name, value in headers.items()),
            *("", names, digest),
        ]
    )
    scope = (stamp[:8], endpoint.region, "s3", "aws4_request")
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{'/'.join(scope)}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{endpoint.secret_key}".encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"{endpoint.access_key}/{'/'.join(scope)}"
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
    )
    return headers
