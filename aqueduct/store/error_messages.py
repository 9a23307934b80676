"""Sentences for an object store's errors, without the secrets that their text may hold."""

import re
from dataclasses import dataclass

from aqueduct.store.url import CLOUDS, Location


@dataclass(frozen=True, kw_only=True)
class Trouble:
    what: str  # "refuses ..."; follows the store's name
    passing: bool = False  # trying again may help
    settings: bool = False  # wrong from the beginning: a name, credentials, rights, a clock
    lacking: bool = False  # the store never does what was asked for, so nothing was written
    id: str = ""  # of the message; empty: by `settings`


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
# A server error is worth another attempt, except where the server says that it does not know the request.
FINAL_SERVER_ERRORS = (501, 505, 506, 508, 510, 511)
_NO_STORE_ANSWER = re.compile(r"Got invalid \w+ response|Unable to extract metadata from headers")
_NO_HTTP = re.compile(r"hyper::Error\(\s*Parse\(")
_WEB_PAGE = re.compile(r"<(?:!doctype )?html\b", re.IGNORECASE)
_TLS = re.compile(r"invalid peer certificate: (\w+)|InvalidCertificate\(\s*(\w+)")
_HANDSHAKE = re.compile(r"InvalidContentType|InvalidMessage|received corrupt message|AlertReceived")


def no_store(location: Location, answer: str) -> Trouble:
    """Return the trouble with an endpoint that answers as an object store does not; `answer`: how."""
    return Trouble(
        what=f"has an endpoint that is not an object store ({answer}); check the host and the port in "
        f"{_endpoint(location)}: a web console, a proxy or another service answers there",
        settings=True,
        id="store-endpoint-wrong",
    )


def _endpoint(location: Location) -> str:
    """Name the setting that has a store's endpoint."""
    return "AWS_ENDPOINT_URL" if location.scheme == "s3" else "the settings of its endpoint"


def explain(text: str, location: Location, action: str) -> Trouble:
    """Explain `text`, what object_store tells of an error, with its debug form; `action`: one of RIGHTS."""
    code = _found(r"<Code>(\w+)</Code>", text) or _found(r'"reason":\s*"(\w+)"', text)
    # S3 answers a request that removes objects with 200, and tells of each what was wrong.
    undeleted = _found(r'DeleteFailed \{[^}]*\bcode: "(\w+)"', text)
    code = code or undeleted
    status = int(_found(r"status(?: code)?: (\d{3})", text) or 0)
    if code in _CODES:
        words = _CODES[code].format(code=code, kind=CLOUDS.get(location.scheme, "bucket"))
        return Trouble(what=words, settings=True)
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
    """Explain the answer of an endpoint that is not the object store; None: it may be."""
    text, status = answer.text, answer.status
    if certificate := _TLS.search(text):
        return Trouble(
            what=f"has a certificate that is not trusted ({certificate[1] or certificate[2]}); "
            "name the CA's PEM file in AWS_CA_BUNDLE or SSL_CERT_FILE",
            settings=True,
        )
    if _HANDSHAKE.search(text):
        return Trouble(what="does not speak TLS as asked; see the endpoint's scheme and port", settings=True)
    if _NO_HTTP.search(text):
        return no_store(location, "it does not answer in HTTP")
    if _NO_STORE_ANSWER.search(text):
        return no_store(location, "its answer is not one of the protocol")
    if "BareRedirect" in text:
        return Trouble(
            what="answers with a redirect without a location: the bucket is in another region, or the "
            f"endpoint is not the one of the bucket; set AWS_REGION, and check {_endpoint(location)}",
            settings=True,
            id="store-endpoint-wrong",
        )
    if re.search(r"kind: Redirect\b", text) or 300 <= status < 400:
        return Trouble(
            what=f"redirects requests to another address{f' ({status})' if status else ''}; set "
            f"{_endpoint(location)} to the address of the object store itself, and check AWS_REGION",
            settings=True,
            id="store-endpoint-wrong",
        )
    return None


def _of_store(answer: _Answer, location: Location, action: str) -> Trouble:
    text, code, status, undeleted = answer.text, answer.code, answer.status, answer.undeleted
    if status == 501 and action == "write":
        return Trouble(
            what=f"does not support conditional writes ({code or status}), which keep two runs from "
            "overwriting each other; use an object store that supports If-None-Match for PUT requests",
            settings=True,
            lacking=True,
            id="store-write-unsupported",
        )
    if "BadScheme" in text:
        return Trouble(
            what="has an endpoint of http://; set AWS_ALLOW_HTTP=true if that is meant", settings=True
        )
    if status == 507:
        return Trouble(what="has no room left; make room")
    if 400 <= status < 500 and not code and _WEB_PAGE.search(text):
        return no_store(location, f"it answers {status} with a web page")
    if status in (401, 403) or undeleted == "AccessDenied":
        remedy = f"give these credentials the right to {RIGHTS[action]}"
        return Trouble(what=f"does not let us {action} ({code or status}); {remedy}", settings=True)
    if status == 404:
        return Trouble(what=_BUCKET.format(kind=CLOUDS.get(location.scheme, "bucket")), settings=True)
    if undeleted:
        return Trouble(what=f"can't remove an object ({undeleted})", passing=True)
    if status:
        passing = (
            (status >= 500 and status not in FINAL_SERVER_ERRORS)
            or status in (408, 409, 429)
            or code in ("SlowDown", "RequestTimeout")
        )
        words = f"answers {status}{f' ({code})' if code else ''}"
        return Trouble(what=words if passing else f"{words}; check {_endpoint(location)}", passing=passing)
    return Trouble(what=f"can't be reached: {_network(text)}", passing=True)


# What keeps a client from an answer.
NO_ANSWER = "no answer in time"
NO_CONNECTION = "the connection is refused"
UNKNOWN_HOST = "its host's name is not known"


class DataAway(Exception):
    """A connection that broke while content was sent or read."""


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
    """Explain an error of hdfs-native; in what it is, `{path}` stands for the object."""
    text = str(error)
    java = _JAVA.match(text)
    name, message = (java[1], _first_line(java[2])) if java else ("", _first_line(text))
    if isinstance(error, FileExistsError) or "must both be directories" in message:
        return Trouble(what="has a folder where {path} is to be a file; move it away")
    if isinstance(error, DataAway):
        return Trouble(
            what=f"can't {action} {{path}}: {_socket(text)}; see that its NameNode and DataNodes run, and "
            "that this host reaches them",
            passing=True,
        )
    if isinstance(error, FileNotFoundError):  # of a file that is being written
        return Trouble(what=f"can't {action} {{path}}: {_plain(message)}", passing=True)
    if isinstance(error, OSError):
        return Trouble(
            what=f"can't be reached: {_socket(text)}; see that its NameNode runs there", passing=True
        )
    return _of_name_node(text, name, message, action, user) or (
        Trouble(what=f"answers {name}: {_plain(message)}", passing=name in _PASSING)
        if java
        else Trouble(what=f"can't {action} {{path}}: {_plain(message)}", passing=True)
    )


def _of_name_node(text: str, name: str, message: str, action: str, user: str) -> Trouble | None:
    """Explain an error that has a remedy of its own; `name`: of Java's exception; None: it has none."""
    if name == "SafeModeException" or "SafeModeException" in message:
        return Trouble(
            what="is in safe mode and takes no changes: see why its DataNodes miss blocks, or end that by "
            "hdfs dfsadmin -safemode leave",
            passing=True,
        )
    if name == "AccessControlException":
        denied = _DENIED.search(text)
        who, where = (_plain(denied[1]), _plain(denied[3])) if denied else (_plain(user), "{path}")
        return Trouble(
            what=f"does not let user {who} {action} at {where}; give that user the right to "
            f"{_HDFS_RIGHTS[action]}, or name another one in HADOOP_USER_NAME",
            settings=True,
        )
    if name == "ParentNotDirectoryException":
        return Trouble(what="has a file where {path} needs a folder; move it away, or name another folder")
    if name == "StandbyException":
        return Trouble(
            what="is a standby NameNode; name the active one, or the name service and HADOOP_CONF_DIR",
            passing=True,
            settings=True,
        )
    if "QuotaExceeded" in name:
        return Trouble(what="has no room left in a quota; make room, or give it more")
    if room := _NO_BLOCK.search(text):
        running = int(room[1])
        reason = (
            f"none of its {running} DataNodes takes a block; make room there"
            if running
            else ("no DataNode of it runs; start them")
        )
        return Trouble(what=f"can't {action} {{path}}: {reason}", passing=True)
    if re.search("SASL|GSSAPI|AuthorizationException|InvalidToken", text):
        return Trouble(
            what=f"does not accept who asks ({_plain(name or message)}); see user {_plain(user)} and its "
            "Kerberos ticket",
            settings=True,
        )
    if "No NameNode hosts found" in text:
        return Trouble(
            what="it names neither a port nor a name service that HADOOP_CONF_DIR knows", settings=True
        )
    if "UrlParseError" in text or "InvalidArgument" in text:
        return Trouble(what="it must be hdfs://HOST:PORT/directory", settings=True)
    return None


def _first_line(text: str) -> str:
    return re.split(r"\\n|\n", text, maxsplit=1)[0]


def _plain(text: str) -> str:
    return text.replace("{", "(").replace("}", ")").rstrip(".")


def _socket(text: str) -> str:
    """Say what the system, or the library, says of a connection."""
    if "failed to lookup address" in text:
        return UNKNOWN_HOST
    if "Connection refused" in text:
        return NO_CONNECTION
    if "timed out" in text:
        return NO_ANSWER
    return _plain(_first_line(text).partition(" (os error")[0]) or "an error of the network"


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
    return system or "an error of the network"


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None
