"""Lifecycle rules of a bucket that remove segments by their age, one for each topic's folder.

By botocore, as the store's own client is configured. Amazon S3 API Reference,
"PutBucketLifecycleConfiguration": who writes rules writes all of the bucket, so those of others are written
back as they were read.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aqueduct.common.wording import count
from aqueduct.errors import Failed, Refused, Skipped
from aqueduct.store import names
from aqueduct.store.expiry import RulesPut
from aqueduct.store.sessions import new_session
from aqueduct.store.url import Location, parse

MOST_RULES = 1_000  # of a bucket, by S3's limits
CONNECT_SECONDS = 5
ANSWER_SECONDS = 20
NO_API = {"NotImplemented", "MethodNotAllowed", "XNotImplemented"}
MINIMUM = "TransitionDefaultMinimumObjectSize"  # of all rules; what is not told again is set back

Rule = dict[str, Any]  # as botocore has it


class LifecycleRules:
    """The rules of a store's bucket."""

    def __init__(self, url: str) -> None:
        """Read the rules; Refused where the store has none, or its server does not know of them."""
        location = parse(url)
        if location.scheme != "s3":
            raise Refused(
                "lifecycle-unsupported",
                f"{location} has no lifecycle rules as S3 has them: leave out --lifecycle-days, and remove "
                "what is old with `aqueduct prune`.",
            )
        self._location = location
        self._client = _client(location)
        self._read()

    def _read(self) -> None:
        answer = self._ask("get_bucket_lifecycle_configuration", "read", "s3:GetLifecycleConfiguration")
        self._every: Sequence[Rule] = (answer or {}).get("Rules", ())
        self._minimum = {MINIMUM: answer[MINIMUM]} if answer and MINIMUM in answer else {}

    def put(self, store: str, days: Mapping[str, int]) -> RulesPut:
        """Let the store of that id have a rule for each of these topics, and no other.

        Refused if the bucket would have more rules than S3 allows.
        """
        self._read()  # again: others may have written meanwhile, and what we write takes the place of theirs
        others = [rule for rule in self._every if not rule.get("ID", "").startswith(_name(store, ""))]
        former = [rule for rule in self._every if rule not in others]
        # S3 refuses a bucket whose rules are partly of the older form, without a filter.
        filtered = not any("Prefix" in rule for rule in others)
        ours = [self._rule(store, topic, of, filtered=filtered) for topic, of in sorted(days.items())]
        if len(others) + len(ours) > MOST_RULES:
            raise Refused(
                "lifecycle-rules-exceeded",
                f"{count(len(ours), 'topic')} would need a rule each, and the bucket {self._location.bucket} "
                f"has {len(others):,} of others, of {MOST_RULES:,} that S3 allows: choose fewer with "
                "--lifecycle-topics-pattern, or remove what is old with `aqueduct prune`, without rules.",
            )
        same = [rule for rule in ours if rule in former]
        if len(same) < len(ours) or len(same) < len(former):
            self._write([*others, *ours])
        changed = len({rule["ID"] for rule in (*ours, *former) if rule not in same})
        return RulesPut(
            ours=len(ours), changed=changed, others=len(others), clashes=tuple(self._clashes(others))
        )

    def _rule(self, store: str, topic: str, days: int, *, filtered: bool) -> Rule:
        prefix = {"Prefix": f"{self._prefix}{names.TOPICS}/{topic}/"}
        return {
            "Expiration": {"Days": days},
            "ID": _name(store, hashlib.sha256(topic.encode()).hexdigest()[:32]),
            **({"Filter": prefix} if filtered else prefix),
            "Status": "Enabled",
        }

    @property
    def _prefix(self) -> str:
        return f"{self._location.path}/" if self._location.path else ""

    def _clashes(self, others: Sequence[Rule]) -> Iterator[Skipped]:
        for rule in others:
            within = rule.get("Filter", rule)
            prefix = within.get("And", within).get("Prefix", "")
            removes = {"Days", "Date"} & rule.get("Expiration", {}).keys()
            near = prefix.startswith(self._prefix) or self._prefix.startswith(prefix)
            if removes and near and rule.get("Status") == "Enabled":
                yield Skipped(
                    f"the rule {rule.get('ID', '?')} of the bucket {self._location.bucket}",
                    "it removes objects of this store, too, of which no snapshot knows: that will be damage",
                    "lifecycle-rule-overlaps",
                )

    def _write(self, rules: Sequence[Rule]) -> None:
        verb_and_right = "written", "s3:PutLifecycleConfiguration"
        if rules:
            content = {"LifecycleConfiguration": {"Rules": rules}, **self._minimum}
            self._ask("put_bucket_lifecycle_configuration", *verb_and_right, **content)
        else:
            self._ask("delete_bucket_lifecycle", *verb_and_right)
        self._every = rules

    def _ask(self, call: str, verb: str, right: str, **content: Any) -> dict[str, Any] | None:
        """Ask S3; None where there are no rules yet."""
        from botocore.exceptions import BotoCoreError, ClientError

        problem = f"The lifecycle rules of the bucket {self._location.bucket} can't be {verb}"
        try:
            return dict(getattr(self._client, call)(Bucket=self._location.bucket, **content))
        except ClientError as error:
            error_fields = error.response.get("Error", {})
            code, message = error_fields.get("Code", "?"), str(error_fields.get("Message", "")).rstrip(".")
            if code == "NoSuchLifecycleConfiguration":
                return None
            if code in NO_API or error.response["ResponseMetadata"].get("HTTPStatusCode") == 501:
                raise Refused(
                    "lifecycle-unsupported",
                    f"The server of {self._location} has no lifecycle rules ({code}): leave out "
                    "--lifecycle-days, and remove what is old with `aqueduct prune`.",
                ) from None
            if code in ("AccessDenied", "NoSuchBucket"):
                remedy = f"give this user {right}" if code == "AccessDenied" else "there is no such bucket"
                raise Refused(
                    "store-access-refused", f"{problem} ({code}): {remedy}, or leave out --lifecycle-days."
                ) from None
            raise Failed("store-request-failed", f"{problem}: {code} ({message}).") from None
        except (BotoCoreError, ValueError) as error:
            raise Failed("store-request-failed", f"{problem}: {str(error).rstrip('.')}.") from None


def _name(store: str, topic: str) -> str:
    """Return the id of a store's rule, by which it is known to be ours."""
    return f"aqueduct-{store}-{topic}"


def _client(location: Location) -> Any:
    # As in the store's backend: who asks for no rules need not wait half a second for it.
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    try:
        session = new_session()
        return session.create_client(
            "s3",
            region_name=os.environ.get("AWS_REGION") or session.get_config_variable("region") or "us-east-1",
            verify=os.environ.get("AWS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE"),
            config=Config(connect_timeout=CONNECT_SECONDS, read_timeout=ANSWER_SECONDS),
        )
    except (BotoCoreError, ValueError) as error:
        raise Refused(
            "store-settings-invalid", f"The settings for {location} can't be used: {error}".rstrip(".") + "."
        ) from None
