"""A worker of Connect: its file, and what is found outside it, which are stores, brokers and folders."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from aqueduct.connect import preflight, tls
from aqueduct.connect.findings import Facts, Listener
from aqueduct.connect.worker import ConnectorConfig, Worker, parse_worker
from aqueduct.errors import Refused, Skipped


def read_worker(path: Path) -> Worker:
    """Read a worker's file; Refused if there is none."""
    return parse_worker(read(path), str(path), _try_to_read)


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Refused("file-unreadable", f"Cannot read {path}: {error.strerror}.") from None


def look(
    worker: Worker, connectors: Sequence[ConnectorConfig], *, probe: bool = True
) -> tuple[Facts, list[Skipped]]:
    """Return the facts, and what could not be looked at, with why.

    `probe`: ask brokers whether they speak TLS.
    """
    stores = {store: tls.contents(store) for store in preflight.stores(worker, connectors)}
    blocks = preflight.blocks(worker, connectors) if probe else []
    listeners: dict[str, Listener | None] = {
        servers: tls.listener(servers) for servers in {block.servers for block in blocks} - {""}
    }
    folders = {folder: _trouble(Path(folder)) for folder in worker.plugin_path()}
    facts = Facts(
        now=datetime.now(UTC),
        stores={store: contents for store, contents in stores.items() if contents is not None},
        listeners={servers: listener for servers, listener in listeners.items() if listener is not None},
        folders={folder: trouble for folder, trouble in folders.items() if trouble},
    )
    left_out = [
        Skipped(
            f"the {store.role} store {store.location}",
            "the password of the store or Java's keytool is not available on this host, or keytool did not "
            "end in time",
            "connect-store-not-opened",
        )
        for store in stores.keys() - facts.stores.keys()
    ]
    left_out += [
        Skipped(servers, "no broker answers at this address", "connect-broker-away")
        for servers in listeners.keys() - facts.listeners.keys()
    ]
    return facts, sorted(left_out)


def _try_to_read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _trouble(folder: Path) -> str:
    """Say what is wrong with a folder of plugin.path."""
    try:
        next(folder.iterdir(), None)
    except NotADirectoryError:
        return "" if folder.suffix == ".jar" else "is not a folder"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return ""
