"""Checks of file backups: names, hosts and folders, and folders that cannot be copied while in use."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from aqueduct.errors import Labelled
from aqueduct.estate.check.inventory import Finding, Inventory, did_you_mean
from aqueduct.estate.check.valid_inventory import Sound
from aqueduct.recovery.file_backup import plan

VARIABLE = "file_backup_sources"


def check_file_backups(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    for host in inventory.members(site, "file_backup"):
        seen = set()
        sources = sound.value(host, VARIABLE) or ()
        if not sources:
            sentence = (
                f"{host} is in the group file_backup, but {VARIABLE} lists no folder; list folders, or "
                "remove the host from the group."
            )
            yield Finding(
                where=inventory.declared(host),
                what="file_backup",
                fault=Labelled("service-without-work", sentence),
            )
        for index, source in enumerate(sources):

            def finding(fault: Labelled, *path: str, host: str = host, index: int = index) -> Finding:
                return inventory.finding(host, VARIABLE, fault, (index, *path))

            name, of, folder = source["name"], source["host"], source["folder"]
            if not plan.NAME.fullmatch(name):
                sentence = f'"{name}" becomes a folder; use up to 100 letters, digits, dots, - and _.'
                yield finding(Labelled("name-illegal", sentence), "name")
            if name in seen:
                sentence = f"two backups have the name {name}; rename one of them."
                yield finding(Labelled("declaration-repeated", sentence), "name")
            seen.add(name)
            if of not in inventory.hosts:
                remedy = did_you_mean(of, inventory.hosts, "use a host of the inventory.")
                yield finding(Labelled("host-unknown", f"the inventory has no host {of}; {remedy}"), "host")
            try:
                login = f"{source.get('user') or 'root'}@{of}"
                plan.source(f"{login}:{folder}")
            except ValueError:
                sentence = f"{folder} is not an absolute path; write the full path."
                yield finding(Labelled("path-not-absolute", sentence), "folder")
                continue
            if log_dir := _data_of(inventory, sound, of, source):
                sentence = (
                    f"{of} stores the data of its Kafka node in {log_dir}, and a copy of files "
                    "that change is not a usable backup; exclude that folder, or use another one "
                    "(the role backup backs up topics and groups)."
                )
                yield finding(Labelled("file-backup-of-kafka-data", sentence), "folder")


def _data_of(inventory: Inventory, sound: Sound, host: str, source: dict[str, object]) -> str:
    """Return the data folder of a Kafka node that a source includes or is part of; empty if there is none."""
    if host not in inventory.groups.get("kafka", ()):
        return ""
    log_dir = PurePosixPath(str(sound.set_or_default(host, "kafka_data_directory")))
    folder = PurePosixPath(str(source["folder"]))
    if folder.is_relative_to(log_dir):
        return str(log_dir)
    if not log_dir.is_relative_to(folder):
        return ""
    excluded = {str(path).rstrip("/") for path in source.get("exclude") or ()}  # type: ignore[attr-defined]
    return "" if f"/{log_dir.relative_to(folder)}" in excluded else str(log_dir)
