"""Lifecycle rules of a bucket that remove segments by their age, one for each topic's folder.

Uses botocore with the configuration of the store's client. A request writes all rules of the bucket (Amazon
S3 API Reference, "PutBucketLifecycleConfiguration"), so third-party rules are written back unchanged.
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
MINIMUM = "TransitionDefaultMinimumObjectSize"  # of all rules; a request without it resets it

Rule = dict[str, Any]  # as botocore has it


class LifecycleRules:
    """The rules of a store's bucket."""

    def __init__(self, url: str) -> None:
        """Read the rules. Refused if the store or its server does not support lifecycle rules."""
        location = parse(url)
        if location.scheme != "s3":
            raise Refused(
                "lifecycle-unsupported",
                f"{location} does not support S3 lifecycle rules. Omit --lifecycle-days, and remove old "
                "snapshots with `aqueduct prune`.",
            )
        self._location = location
        self._client = _client(location)
        self._read()

    def _read(self) -> None:
        answer = self._ask("get_bucket_lifecycle_configuration", "read", "s3:GetLifecycleConfiguration")
        self._every: Sequence[Rule] = (answer or {}).get("Rules", ())
        self._minimum = {MINIMUM: answer[MINIMUM]} if answer and MINIMUM in answer else {}

    def put(self, store: str, days: Mapping[str, int]) -> RulesPut:
        """Write one rule for each of these topics of a store, and remove the store's other rules.

        Refused if the bucket would have more rules than S3 allows.
        """
        self._read()  # again: other clients may have changed the rules, and a request replaces all
        others = [rule for rule in self._every if not rule.get("ID", "").startswith(_name(store, ""))]
        former = [rule for rule in self._every if rule not in others]
        # S3 rejects a mix of rules with filters and of older rules without filters.
        filtered = not any("Prefix" in rule for rule in others)
        ours = [self._rule(store, topic, of, filtered=filtered) for topic, of in sorted(days.items())]
        if len(others) + len(ours) > MOST_RULES:
            raise Refused(
                "lifecycle-rules-exceeded",
                f"{count(len(ours), 'topic')} would need one rule each, but the bucket "
                f"{self._location.bucket} "
                f"has {len(others):,} other rules, and S3 allows {MOST_RULES:,}. Select fewer topics with "
                "--lifecycle-topics-pattern. Or omit --lifecycle-days, and remove old snapshots with "
                "`aqueduct prune`.",
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
                    "it also removes objects of this store, which damages snapshots; limit the rule to other "
                    "prefixes",
                    "lifecycle-rule-overlaps",
                )

    def _write(self, rules: Sequence[Rule]) -> None:
        verb_and_right = "write", "s3:PutLifecycleConfiguration"
        if rules:
            content = {"LifecycleConfiguration": {"Rules": rules}, **self._minimum}
            self._ask("put_bucket_lifecycle_configuration", *verb_and_right, **content)
        else:
            self._ask("delete_bucket_lifecycle", *verb_and_right)
        self._every = rules

    def _ask(self, call: str, verb: str, right: str, **content: Any) -> dict[str, Any] | None:
        """Send a request to S3. None if the bucket has no rules."""
        from botocore.exceptions import BotoCoreError, ClientError

        problem = f"Cannot {verb} the lifecycle rules of the bucket {self._location.bucket}"
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
                    f"The server of {self._location} does not support lifecycle rules ({code}). Omit "
                    "--lifecycle-days, and remove old snapshots with `aqueduct prune`.",
                ) from None
            if code in ("AccessDenied", "NoSuchBucket"):
                remedy = (
                    f"Give this user {right}" if code == "AccessDenied" else "Check the name of the bucket"
                )
                raise Refused(
                    "store-access-refused", f"{problem} ({code}). {remedy}, or omit --lifecycle-days."
                ) from None
            raise Failed(
                "store-request-failed",
                f"{problem}: {code} ({message}). Correct the cause, and run the command again.",
            ) from None
        except (BotoCoreError, ValueError) as error:
            raise Failed(
                "store-request-failed",
                f"{problem}: {str(error).rstrip('.')}. Correct the cause, and run the command again.",
            ) from None


def _name(store: str, topic: str) -> str:
    """Return the id of a store's rule; the prefix shows that Aqueduct wrote it."""
    return f"aqueduct-{store}-{topic}"


def _client(location: Location) -> Any:
    # Imported here, because it takes half a second, and runs without rules do not need it.
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
            "store-settings-invalid",
            f"Cannot use the settings for {location}: {str(error).rstrip('.')}. Correct the settings.",
        ) from None
