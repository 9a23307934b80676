"""The bundle: the file that lists gaps, carried by hand to where they can be sent again."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args
from uuid import UUID

from aqueduct.common.offset_sets import Spans, spans_of
from aqueduct.errors import Refused
from aqueduct.link.ledger.entry import LedgerPartition

BundleKind = Literal["all", "first"]


@dataclass(frozen=True, kw_only=True)
class MissingOffsets:
    """The missing offsets of one partition, by its number downstream."""

    topic: str
    partition: int
    gaps: Spans
    topic_id: str | None = None  # the source's; air-gap's bundles have none


@dataclass(frozen=True)
class Bundle:
    """A bundle to resend. `all`: exactly these offsets. `first`: all from each partition's first gap on."""

    kind: BundleKind
    results: list[MissingOffsets]


def bundle(ledger: Iterable[LedgerPartition], kind: BundleKind) -> Bundle:
    """Bundle the gaps of current topics; what a recreated topic left open can't be sent any more."""
    results = [
        MissingOffsets(
            topic=partition.topic,
            partition=partition.partition,
            gaps=partition.current.gaps[: 1 if kind == "first" else None],
            topic_id=partition.current.topic_id,
        )
        for partition in ledger
        if partition.current and partition.current.gaps
    ]
    return Bundle(kind, sorted(results, key=lambda missing: (missing.topic, missing.partition)))


def dumps(content: Bundle) -> str:
    return json.dumps({"type": content.kind, "results": [_result(missing) for missing in content.results]})


def _result(of: MissingOffsets) -> dict[str, Any]:
    content = {"topic": of.topic, "partition": of.partition, "gaps": of.gaps}
    return content | ({"topic_id": of.topic_id} if of.topic_id else {})


def loads(text: str, where: str) -> Bundle:
    """Parse a bundle; Refused, naming `where`, if it isn't one."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused("bundle-invalid", f"{where} is not a bundle: it is not JSON ({error}).") from None
    if type(content) is not dict or content.get("type") not in get_args(BundleKind):
        raise Refused("bundle-invalid", f'{where} is not a bundle: "type" must be "all" or "first".')
    if type(content.get("results")) is not list:
        raise Refused("bundle-invalid", f'{where} is not a bundle: "results" must be a list.')
    results = [
        _missing(result, f"{where}: result {number}") for number, result in enumerate(content["results"], 1)
    ]
    if len({(missing.topic, missing.partition) for missing in results}) < len(results):
        raise Refused(
            "bundle-invalid",
            f"{where} lists a partition twice. Create the bundle again with `aqueduct diode create`.",
        )
    return Bundle(content["type"], results)


def _missing(content: Any, where: str) -> MissingOffsets:
    if type(content) is not dict:
        raise Refused("bundle-invalid", f"{where} must be an object with topic, partition and gaps.")
    topic, partition, gaps, topic_id = map(content.get, ("topic", "partition", "gaps", "topic_id"))
    if type(topic) is not str or not topic:
        raise Refused("bundle-invalid", f'{where} has no "topic".')
    if type(partition) is not int or partition < 0:
        raise Refused(
            "bundle-invalid", f'{where} ({topic}) must have a "partition" of 0 or more, not {partition!r}.'
        )
    if type(gaps) is not list or not all(map(_is_span, gaps)):
        raise Refused(
            "bundle-invalid",
            f'{where} ({topic}-{partition}) must have "gaps" as a list of [from, to], from <= to.',
        )
    if topic_id is not None and not _is_id(topic_id):
        raise Refused(
            "bundle-invalid",
            f'{where} ({topic}-{partition}) must have a UUID as "topic_id", or no "topic_id".',
        )
    return MissingOffsets(
        topic=topic,
        partition=partition,
        gaps=spans_of((first, last) for first, last in gaps),
        topic_id=topic_id,
    )


def _is_id(content: Any) -> bool:
    try:
        return type(content) is str and str(UUID(content)) == content
    except ValueError:
        return False


def _is_span(content: Any) -> bool:
    return (
        type(content) is list
        and len(content) == 2
        and all(type(offset) is int for offset in content)
        and 0 <= content[0] <= content[1]
    )
