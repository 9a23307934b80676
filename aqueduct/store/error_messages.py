"""Sentences about errors of an object store, without secrets that their text may contain."""

import re
from dataclasses import dataclass

from aqueduct.store.url import CLOUDS, Location


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """An error of a store: a phrase after the store's name, and the remedy as sentences."""

    what: str
    remedy: str = "Check the store, and run the command again."
    passing: bool = False  # a retry may help
    settings: bool = False  # wrong settings: a name, credentials, rights, a clock
    lacking: bool = False  # the store does not support the request, so nothing was written
    id: str = ""  # of the message; empty: by `settings`

    def sentence(self, url: str) -> str:
        return f"The store {url} {self.what}. {self.remedy}"


_CREDENTIALS = (
    "rejects these credentials ({code})",
    "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_PROFILE.",
)
_BUCKET = ("has no such {kind}", "Check the name of the {kind} and the endpoint.")
_REGION = ("is in another region ({code})", "Set AWS_REGION.")
_CLOCK = (
    "rejects requests, because the clocks of this host and of the store differ",
    "Synchronise them (NTP).",
)
# By the codes of S3, Google and Azure.
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
# A server error is worth a retry, except if the server does not support the request.
FINAL_SERVER_ERRORS = (501, 505, 506, 508, 510, 511)
_NO_STORE_ANSWER = re.compile(r"Got invalid \w+ response|Unable to extract metadata from headers")
_NO_HTTP = re.compile(r"hyper::Error\(\s*Parse\(")
_WEB_PAGE = re.compile(r"<(?:!doctype )?html\b", re.IGNORECASE)
_TLS = re.compile(r"invalid peer certificate: (\w+)|InvalidCertificate\(\s*(\w+)")
_HANDSHAKE = re.compile(r"InvalidContentType|InvalidMessage|received corrupt message|AlertReceived")


def no_store(location: Location, answer: str) -> Trouble:
    """Return the trouble of an endpoint that is not an object store. `answer`: a phrase about its answer."""
    return Trouble(
        what=f"has an endpoint that is not an object store ({answer})",
        remedy=f"A web console, a proxy or another service may answer there. Check the host and the port in "
        f"{_endpoint(location)}.",
        settings=True,
        id="store-endpoint-wrong",
    )


def _endpoint(location: Location) -> str:
    """Return the setting with a store's endpoint."""
    return "AWS_ENDPOINT_URL" if location.scheme == "s3" else "the settings of its endpoint"


def explain(text: str, location: Location, action: str) -> Trouble:
    """Explain `text`, an error of object_store with its debug form. `action`: a key of RIGHTS."""
    code = _found(r"<Code>(\w+)</Code>", text) or _found(r'"reason":\s*"(\w+)"', text)
    # S3 answers a request that removes objects with 200, and lists the errors of single objects.
    undeleted = _found(r'DeleteFailed \{[^}]*\bcode: "(\w+)"', text)
    code = code or undeleted
    status = int(_found(r"status(?: code)?: (\d{3})", text) or 0)
    if code in _CODES:
        kind = CLOUDS.get(location.scheme, "bucket")
        phrase, remedy = (part.format(code=code, kind=kind) for part in _CODES[code])
        return Trouble(what=phrase, remedy=remedy, settings=True)
    answer = _Answer(text=text, code=code, status=status, undeleted=undeleted)
    return _of_endpoint(answer, location) or _of_store(answer, location, action)


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """The text of an error of object_store, with its S3 code (or None) and its HTTP status (or 0)."""

    text: str
    code: str | None
    status: int
    undeleted: str | None  # the code of an object that was not removed


def _of_endpoint(answer: _Answer, location: Location) -> Trouble | None:
    """Explain the answer of an endpoint that is not the object store; None for other answers."""
    text, status = answer.text, answer.status
    if certificate := _TLS.search(text):
        return Trouble(
            what=f"has a certificate that this host does not trust ({certificate[1] or certificate[2]})",
            remedy="Set AWS_CA_BUNDLE or SSL_CERT_FILE to the PEM file of the CA.",
            settings=True,
        )
    if _HANDSHAKE.search(text):
        return Trouble(
            what="failed the TLS handshake",
            remedy="Check the scheme and the port of the endpoint.",
            settings=True,
        )
    if _NO_HTTP.search(text):
        return no_store(location, "it does not answer in HTTP")
    if _NO_STORE_ANSWER.search(text):
        return no_store(location, "its answer is not in the protocol of the store")
    if "BareRedirect" in text:
        return Trouble(
            what="answers with a redirect without a location: the bucket has another region or endpoint",
            remedy=f"Set AWS_REGION, and check {_endpoint(location)}.",
            settings=True,
            id="store-endpoint-wrong",
        )
    if re.search(r"kind: Redirect\b", text) or 300 <= status < 400:
        return Trouble(
            what=f"redirects requests to another address{f' ({status})' if status else ''}",
            remedy=f"Set {_endpoint(location)} to the address of the object store. Check AWS_REGION.",
            settings=True,
            id="store-endpoint-wrong",
        )
    return None


def _of_store(answer: _Answer, location: Location, action: str) -> Trouble:
    text, code, status, undeleted = answer.text, answer.code, answer.status, answer.undeleted
    if status == 501 and action == "write":
        return Trouble(
            what=f"does not support conditional writes ({code or status}), so runs could overwrite objects",
            remedy="Use an object store that supports If-None-Match for PUT requests.",
            settings=True,
            lacking=True,
            id="store-write-unsupported",
        )
    if "BadScheme" in text:
        return Trouble(
            what="has an endpoint without TLS (`http:`)",
            remedy="Use `https:`. To allow connections without TLS, set AWS_ALLOW_HTTP=true.",
            settings=True,
        )
    if status == 507:
        return Trouble(what="has no free space", remedy="Free space in the store, or add disks.")
    if 400 <= status < 500 and not code and _WEB_PAGE.search(text):
        return no_store(location, f"it answers {status} with a web page")
    if status in (401, 403) or undeleted == "AccessDenied":
        return Trouble(
            what=f"denies access: {action} ({code or status})",
            remedy=f"Give these credentials the right to {RIGHTS[action]}.",
            settings=True,
        )
    if status == 404:
        phrase, remedy = (part.format(kind=CLOUDS.get(location.scheme, "bucket")) for part in _BUCKET)
        return Trouble(what=phrase, remedy=remedy, settings=True)
    if undeleted:
        return Trouble(what=f"cannot remove an object ({undeleted})", passing=True)
    if status:
        passing = (
            (status >= 500 and status not in FINAL_SERVER_ERRORS)
            or status in (408, 409, 429)
            or code in ("SlowDown", "RequestTimeout")
        )
        words = f"answers {status}{f' ({code})' if code else ''}"
        remedy = "Check the store" if passing else f"Check {_endpoint(location)}"
        return Trouble(what=words, remedy=f"{remedy}, and run the command again.", passing=passing)
    return Trouble(
        what=f"cannot be reached: {_network(text)}",
        remedy=f"Check that the store runs, and check {_endpoint(location)}.",
        passing=True,
    )


# Reasons why a client gets no answer.
NO_ANSWER = "no answer in time"
NO_CONNECTION = "the connection is refused"
UNKNOWN_HOST = "its host name cannot be resolved"


class DataAway(Exception):
    """The error of a connection that broke while content was sent or read."""


_HDFS_RIGHTS = {
    "read": "read there",
    "write": "create files there",
    "list": "list it",
    "move": "create and remove files there",
    "remove": "remove files there",
}
_JAVA = re.compile(r'^(?:Fatal)?RPCError\("(?:[\w.$]+\.)?(\w+)", "(.*)"\)$', re.DOTALL)
_PASSING = (
    "RetriableException",
    "RetryStartFileException",
    "LeaseExpiredException",
    "NotReplicatedYetException",
)
_DENIED = re.compile(r'user=([^,=]+), access=(\w+), inode=\\?"([^"\\]*)')
_NO_BLOCK = re.compile(r"There are (\d+) datanode\(s\) running and (\w+) node\(s\) are excluded")


def explain_hdfs(error: Exception, action: str, user: str) -> Trouble:
    """Explain an error of hdfs-native. In its phrase, `{path}` stands for the object."""
    text = str(error)
    java = _JAVA.match(text)
    name, message = (java[1], _first_line(java[2])) if java else ("", _first_line(text))
    if isinstance(error, FileExistsError) or "must both be directories" in message:
        return Trouble(
            what="has a folder at the path of the file {path}", remedy="Move the folder to another place."
        )
    if isinstance(error, DataAway):
        return Trouble(
            what=f"cannot {action} {{path}}: {_socket(text)}",
            remedy="Check that its NameNode and DataNodes run, and that this host can reach them.",
            passing=True,
        )
    if isinstance(error, FileNotFoundError):  # of a file that is being written
        return Trouble(what=f"cannot {action} {{path}}: {_plain(message)}", passing=True)
    if isinstance(error, OSError):
        return Trouble(
            what=f"cannot be reached: {_socket(text)}", remedy="Check that its NameNode runs.", passing=True
        )
    return _of_name_node(text, name, message, action, user) or (
        Trouble(what=f"answers {name}: {_plain(message)}", passing=name in _PASSING)
        if java
        else Trouble(what=f"cannot {action} {{path}}: {_plain(message)}", passing=True)
    )


def _of_name_node(text: str, name: str, message: str, action: str, user: str) -> Trouble | None:
    """Explain an error with a specific remedy; None for other errors. `name`: the Java exception."""
    if name == "SafeModeException" or "SafeModeException" in message:
        return Trouble(
            what="is in safe mode and accepts no changes",
            remedy="Find out why its DataNodes lack blocks, or run hdfs dfsadmin -safemode leave.",
            passing=True,
        )
    if name == "AccessControlException":
        denied = _DENIED.search(text)
        who, where = (_plain(denied[1]), _plain(denied[3])) if denied else (_plain(user), "{path}")
        return Trouble(
            what=f"denies access of user {who} to {where}: {action}",
            remedy=f"Give this user the right to {_HDFS_RIGHTS[action]}, or set another HADOOP_USER_NAME.",
            settings=True,
        )
    if name == "ParentNotDirectoryException":
        return Trouble(
            what="has a file at the path of a folder above {path}",
            remedy="Move the file to another place, or pass another folder.",
        )
    if name == "StandbyException":
        return Trouble(
            what="is a standby NameNode",
            remedy="Pass the active NameNode, or the name service with HADOOP_CONF_DIR.",
            passing=True,
            settings=True,
        )
    if "QuotaExceeded" in name:
        return Trouble(what="has exceeded a quota", remedy="Remove files, or raise the quota.")
    if room := _NO_BLOCK.search(text):
        running = int(room[1])
        reason, remedy = (
            (f"none of its {running} DataNodes accepts a block", "Free space on the DataNodes.")
            if running
            else ("none of its DataNodes runs", "Start the DataNodes.")
        )
        return Trouble(what=f"cannot {action} {{path}}: {reason}", remedy=remedy, passing=True)
    if re.search("SASL|GSSAPI|AuthorizationException|InvalidToken", text):
        return Trouble(
            what=f"rejects the authentication of user {_plain(user)} ({_plain(name or message)})",
            remedy="Check the user and its Kerberos ticket.",
            settings=True,
        )
    if "No NameNode hosts found" in text:
        return Trouble(
            what="has neither a port nor a name service of HADOOP_CONF_DIR in its URL",
            remedy="Correct the URL, or set HADOOP_CONF_DIR.",
            settings=True,
        )
    if "UrlParseError" in text or "InvalidArgument" in text:
        return Trouble(
            what="has an invalid URL", remedy="Write it as hdfs://HOST:PORT/directory.", settings=True
        )
    return None


def _first_line(text: str) -> str:
    return re.split(r"\\n|\n", text, maxsplit=1)[0]


def _plain(text: str) -> str:
    return text.replace("{", "(").replace("}", ")").rstrip(".")


def _socket(text: str) -> str:
    """Return the reason of a failed connection."""
    if "failed to lookup address" in text:
        return UNKNOWN_HOST
    if "Connection refused" in text:
        return NO_CONNECTION
    if "timed out" in text:
        return NO_ANSWER
    return _plain(_first_line(text).partition(" (os error")[0]) or "a network error"


def _network(text: str) -> str:
    if "failed to lookup address" in text or "dns error" in text:
        return UNKNOWN_HOST
    if "ConnectionRefused" in text:
        return NO_CONNECTION
    if re.search(r"kind: Timeout|TimedOut|operation timed out", text):
        return NO_ANSWER
    if re.search(r"ConnectionReset|IncompleteMessage|UnexpectedEof|BrokenPipe|ConnectionAborted", text):
        return "the connection broke"
    system = _found(r'message: "([\w ,.-]+)"', text)
    return system or "a network error"


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None
