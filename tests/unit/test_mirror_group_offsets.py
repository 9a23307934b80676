"""Which offsets of a group the engine sets at the target."""

from aqueduct.common.topic_names import TopicPartition
from aqueduct.mirror.engine.groups import advances

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_offset_is_set_that_is_after_the_committed_one() -> None:
    translations = {FIRST: (8, "m"), SECOND: (3, "")}
    assert advances(translations, {}) == translations
    assert advances(translations, {FIRST: (7, ""), SECOND: (3, "x")}) == {FIRST: (8, "m")}


def test_group_that_another_process_has_moved_further_does_not_go_back() -> None:
    moves = advances({FIRST: (8, "")}, {FIRST: (5, "")})
    assert moves == {FIRST: (8, "")}
    assert advances(moves, {FIRST: (9, "")}) == {}
