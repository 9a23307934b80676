"""Which offsets of a group the engine sets at the target."""

from aqueduct.common.topic_names import TopicPartition
from aqueduct.mirror.engine.groups import advances

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_only_offsets_above_committed_ones_are_set() -> None:
    translations = {FIRST: (8, "m"), SECOND: (3, "")}
    assert advances(translations, {}) == translations
    assert advances(translations, {FIRST: (7, ""), SECOND: (3, "x")}) == {FIRST: (8, "m")}


def test_group_advanced_by_another_process_is_not_reset() -> None:
    moves = advances({FIRST: (8, "")}, {FIRST: (5, "")})
    assert moves == {FIRST: (8, "")}
    assert advances(moves, {FIRST: (9, "")}) == {}
