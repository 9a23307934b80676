"""Consumer groups get their offsets; one that has members gets them from a later run.

Until then they wait as offsets of a group of our own, each with its move as metadata.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from kafka.errors import KafkaError

from aqueduct.errors import Failed, Refused
from aqueduct.kafka import groups
from aqueduct.kafka.admin import Admin
from aqueduct.kafka.client import Client
from aqueduct.names import TopicPartition
from aqueduct.restore import progress
from aqueduct.restore.outcome import LeftOut, Move

LIVE = "it has members: stop them, then run this again"
MOVED_ON = "it has offsets there already, and keeps them; delete those and run this again to have it set"


@dataclass(frozen=True)
class Done:
    moves: tuple[Move, ...]  # that were made
    waiting: LeftOut  # groups that a later run will try again by itself
    failed: LeftOut


def set_groups(
    client: Client, restore_id: str, moves: Mapping[str, Sequence[Move]], settled: Set[str]
) -> Done:
    """`settled`: topics where groups may have been before, or gone on since: they keep what they have."""
    late = [name for name, mine in moves.items() if any(move.topic in settled for move in mine)]
    there = groups.committed(client, late)
    done: list[Move] = []
    waiting: list[tuple[str, str]] = []
    failed: list[tuple[str, str]] = []
    for name, every in moves.items():
        known = there.get(name, {})
        mine = [move for move in every if known.get(move.place, (None,))[0] != move.new]
        if any(move.topic in settled and move.place in known for move in mine):
            failed.append((f"group {name}", MOVED_ON))
            continue
        try:
            groups.commit(client, name, _offsets(mine))
        except groups.LiveGroup:
            try:
                groups.commit(client, progress.waiting_group(restore_id, name), dict(_kept(mine)))
                waiting.append((f"group {name}", LIVE))
            except Refused:  # its own metadata leaves no room
                failed.append((f"group {name}", LIVE))
        except (Failed, KafkaError) as error:
            failed.append((f"group {name}", str(error).rstrip(".")))
        else:
            done += mine
    return Done(tuple(done), tuple(waiting), tuple(failed))


def set_waiting(client: Client, admin: Admin, restore_id: str, chosen: Collection[str]) -> Done:
    """Those of the chosen groups that had members when the others got their offsets."""
    prefix = progress.waiting_group(restore_id, "")
    there = (name for name in groups.list_groups(client) if name.startswith(prefix))
    waiting = [name for name in there if name.removeprefix(prefix) in chosen]
    done: list[Move] = []
    left: list[tuple[str, str]] = []
    for group, offsets in groups.committed(client, waiting).items():
        name = group.removeprefix(prefix)
        moves = [move for _, kept in offsets.values() if (move := progress.loads(Move, kept))]
        try:
            groups.commit(client, name, _offsets(moves))
        except groups.LiveGroup:
            left.append((f"group {name}", LIVE))
        except (Failed, KafkaError) as error:
            left.append((f"group {name}", str(error).rstrip(".")))
        else:
            done += moves
            admin.client.delete_groups([group])
    return Done(tuple(done), tuple(left), ())


def _offsets(moves: Iterable[Move]) -> dict[TopicPartition, tuple[int, str]]:
    return {move.place: (move.new, move.metadata) for move in moves}


def _kept(moves: Iterable[Move]) -> Iterator[tuple[TopicPartition, tuple[int, str]]]:
    for move in moves:
        yield move.place, (move.new, progress.dumps(move, f"group {move.group}"))
