"""Features of a cluster (KIP-584), such as `metadata.version`: at which level each is, and could be."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from kafka.protocol.admin import UpdateFeaturesRequest
from kafka.protocol.metadata import ApiVersionsRequest

from aqueduct.common.wording import some
from aqueduct.errors import Failed, Refused
from aqueduct.kafka.admin.asking import POLL_SECONDS, SETTLE_SECONDS, answer, change
from aqueduct.kafka.client import REQUEST_SECONDS, Client, Patience

_FEATURES_SINCE = 3  # version of ApiVersions; up to 3 it leaves those out that may be 0
_UPGRADE = 1  # FeatureUpdate.UpgradeType: never down again, where that would lose metadata


@dataclass(frozen=True)
class Feature:
    level: int  # the cluster's; 0: it is not used
    highest: int  # that every broker can


def versions_request(version: int | None = None) -> ApiVersionsRequest:
    """Return the question to a node for its features; a name of the client is not left out."""
    return ApiVersionsRequest(
        client_software_name="aqueduct",
        client_software_version="1",
        min_version=_FEATURES_SINCE,
        version=version,
    )


def features(client: Client) -> dict[str, Feature]:
    """Return the features that all brokers know, by name."""
    brokers = Patience(client, "did not list its brokers").until_done(client.brokers)
    responses = [answer(client, versions_request(), broker) for broker in brokers]
    can = [{feature.name: feature.max_version for feature in one.supported_features} for one in responses]
    newest = max(responses, key=lambda one: one.finalized_features_epoch)
    levels = {feature.name: feature.max_version_level for feature in newest.finalized_features}
    everywhere = set.intersection(*(set(one) for one in can))
    return {name: Feature(levels.get(name, 0), min(one[name] for one in can)) for name in sorted(everywhere)}


def higher(feature_by_name: Mapping[str, Feature]) -> dict[str, int]:
    """Return the levels to which features can be raised, by name."""
    return {
        name: feature.highest for name, feature in feature_by_name.items() if feature.level < feature.highest
    }


class FeaturesPlanUnreadable(Refused):
    """The error of a stored plan that cannot be read."""

    id = "features-plan-unreadable"


class FeaturesPlanChanged(Refused):
    """The error of a confirmed run that would raise features to other levels than those that were shown."""

    id = "features-plan-changed"


@dataclass(frozen=True)
class ReadFeatures:
    """The levels that a plan said features will have; its file has these fields."""

    raised: Mapping[str, int]


def plan_changes(read: ReadFeatures, raised: Mapping[str, int]) -> list[str]:
    """Return why levels are not those of the plan that was read, a sentence each; empty if they are."""
    return [
        (
            f"The confirmed run would raise {name} to {level}, but the plan of the first run raises it to "
            f"{read.raised[name]}."
        )
        if name in read.raised
        else (
            f"The confirmed run would raise {name} to {level}, but the plan of the first run does not "
            f"contain {name}."
        )
        for name, level in sorted(raised.items())
        if read.raised.get(name) != level
    ]


def raise_to(client: Client, levels: Mapping[str, int]) -> None:
    """Raise features to these levels, and return when each broker says so (KIP-584, KIP-778)."""
    kind = UpdateFeaturesRequest.FeatureUpdateKey
    request = UpdateFeaturesRequest(
        timeout_ms=REQUEST_SECONDS * 1000,
        feature_updates=[
            kind(feature=name, max_version_level=level, upgrade_type=_UPGRADE)
            for name, level in levels.items()
        ],
        validate_only=False,
        min_version=1,
    )
    refused = change(
        client,
        request,
        lambda response: (
            ("the request", response.error_code, response.error_message),
            *((result.feature, result.error_code, result.error_message) for result in response.results),
        ),
    )
    if refused:
        raise Failed("feature-rejected", f"The controller rejected a higher level of {some(refused)}.")
    deadline = time.monotonic() + SETTLE_SECONDS
    while left := [n for n, feature in features(client).items() if feature.level < levels.get(n, 0)]:
        if time.monotonic() > deadline:
            raise Failed(
                "feature-not-visible",
                f"Some brokers do not report the new level of {some(left)} {SETTLE_SECONDS} s after the "
                "controller accepted it.",
            )
        client.sleep(POLL_SECONDS)
