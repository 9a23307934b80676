"""`aqueduct backup` into a new store each time."""

from functools import partial
from itertools import count

from bench.measured import Usage
from bench.rounds import MODES, Commands, Estate, Kind

numbers = count()


def back_up(where: Estate, topic: str, store: str, mode: str, *options: str) -> Usage:
    name = f"store-{next(numbers)}"
    usage = where.back_up(topic, where.url(store, name), *MODES[mode], *options)
    where.remove(name)
    return usage


def commands(where: Estate, topic: str, kinds: list[Kind]) -> Commands:
    made: Commands = {("backup", *kind): partial(back_up, where, topic, *kind) for kind in kinds}
    for kind in kinds:
        if kind[0] == kinds[0][0]:
            made["backup, encrypted", *kind] = partial(back_up, where, topic, *kind, *where.encrypted)
    return made
