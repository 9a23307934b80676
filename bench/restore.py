"""`aqueduct restore` into a new topic each time, `aqueduct export` into a new folder, and `aqueduct verify`.

What verification before the first write takes is the difference of `restore` and `restore --skip-verify`.
"""

from functools import partial
from itertools import count

from bench.data import delete
from bench.measured import Usage
from bench.rounds import MODES, ONE_PROCESS, Commands, Estate, Kind

numbers = count()


def restore(where: Estate, topic: str, url: str, *options: str) -> Usage:
    name = f"restored-{next(numbers)}"
    usage = where.aqueduct(
        *("restore", "--bootstrap-server", where.servers, "--store", url, "--topics", f"{topic}:{name}"),
        *("--no-groups", *options),
    )
    delete(where.servers, name)
    return usage


def export(where: Estate, topic: str, url: str, format_: str, *options: str) -> Usage:
    name = f"exported-{topic}-{next(numbers)}"
    usage = where.aqueduct(
        *("export", "--store", url, "--topics", topic, "--to", where.url("local", name)),
        *("--format", format_, *options),
    )
    where.remove(name)
    return usage


def commands(where: Estate, topic: str, kinds: list[Kind]) -> Commands:
    made: Commands = {}
    for store, mode in kinds:
        url = where.url(store, f"store-of-{topic}")
        if not any(store == other for _, other, _ in made):
            where.back_up(topic, url)
        run = partial(restore, where, topic, url, *MODES[mode])
        made["restore", store, mode] = run
        if mode == ONE_PROCESS:  # by Spark it is the same work, and takes a minute more each round
            made["restore --skip-verify", store, mode] = partial(run, "--skip-verify")
            made["verify", store, mode] = partial(where.aqueduct, "verify", "--store", url)
    first = kinds[0][0]
    for store, mode in kinds:
        if store == first:
            url = where.url(store, f"store-of-{topic}")
            for format_ in ("parquet", "avro"):
                made[f"export {format_}", store, mode] = partial(
                    export, where, topic, url, format_, *MODES[mode]
                )
    encrypted = where.url(first, f"encrypted-store-of-{topic}")
    where.back_up(topic, encrypted, *where.encrypted)
    for store, mode in kinds:
        if store == first:
            made["restore, encrypted", store, mode] = partial(
                restore, where, topic, encrypted, *MODES[mode], *where.opened
            )
    return made
