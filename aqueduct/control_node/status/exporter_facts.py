"""The facts of hosts, as their exporters show them: what can be known of an estate without Ansible.

The control node writes a file that lists all declared objects, and the exporters of each host. Questions that
only the commands of `playbooks/status.yml` answer stay unknown.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

from aqueduct.control_node.status.facts import samples
from aqueduct.errors import Refused

NODE = "node"  # the name of the node exporter
# Metrics in the folder of the node exporter, by the name that the status has for them.
TEXT_FILES = {"drill": "aqueduct_drill_", "backup_verify": "aqueduct_backup_verify_"}
NOT_MONITORED = "it is not in the group monitoring"
UNASKED = "its exporters do not show it; only playbooks/status.yml queries it"
# Folders whose file systems the node exporter does not report, or does not see because of its sandbox.
HIDDEN = ("/dev", "/home", "/proc", "/root", "/run", "/sys", "/var/lib/containers/storage", "/var/lib/docker")
# Labels of the collectors. Services may write into the folder of text files, under any name.
FILE_SYSTEM = frozenset({"device", "fstype", "mountpoint"})
COLLECTED: Mapping[str, frozenset[frozenset[str]]] = {
    "node_time_seconds": frozenset({frozenset[str]()}),
    "node_boot_time_seconds": frozenset({frozenset[str]()}),
    "node_scrape_collector_success": frozenset({frozenset({"collector"})}),
    "node_systemd_unit_state": frozenset({frozenset({"name", "state", "type"})}),
    "node_systemd_timer_last_trigger_seconds": frozenset({frozenset({"name"})}),
    **{
        f"node_filesystem_{name}_bytes": frozenset({FILE_SYSTEM, FILE_SYSTEM | {"device_error"}})
        for name in ("size", "free", "avail")
    },
}
SUFFIXES = (".service", ".socket", ".timer")

NodeSamples = Mapping[str, Sequence[tuple[Mapping[str, str], float]]]


@dataclass(frozen=True, kw_only=True)
class ScrapedHost:
    """A host of the group monitoring. The other fields: what its roles say that is asked for the status."""

    name: str
    site: str
    address: str  # with the port of metrics
    exporters: tuple[str, ...]  # whose metrics are evaluated
    units: tuple[str, ...]  # that are to be active
    runs: tuple[str, ...]  # that a timer starts
    folders: tuple[str, ...]  # of data


@dataclass(frozen=True, kw_only=True)
class ScrapedCluster:
    site: str
    bootstrap_servers: str
    brokers: tuple[int, ...]
    hosts: tuple[str, ...]  # of its nodes


@dataclass(frozen=True, kw_only=True)
class EstateFile:
    """What the inventory declares, for a host that has no inventory."""

    document: Mapping[str, Any]  # as that of a file of facts, without facts
    hosts: tuple[ScrapedHost, ...]
    clusters: tuple[ScrapedCluster, ...]

    def text_fields(self) -> dict[str, Any]:
        """Return the content of the file."""
        return {
            **self.document,
            "exporters": [asdict(host) for host in self.hosts],
            "clusters": [asdict(cluster) for cluster in self.clusters],
        }


def read_estate(source: Any) -> EstateFile:
    """Parse the file. Refused if it is none."""
    try:
        return EstateFile(
            document={name: source[name] for name in ("version", "limits", "unreachable", "declared")},
            hosts=tuple(_host(raw_host) for raw_host in source["exporters"]),
            clusters=tuple(
                ScrapedCluster(
                    site=str(raw_cluster["site"]),
                    bootstrap_servers=str(raw_cluster["bootstrap_servers"]),
                    brokers=tuple(int(broker) for broker in raw_cluster["brokers"]),
                    hosts=_texts(raw_cluster["hosts"]),
                )
                for raw_cluster in source["clusters"]
            ),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(
            "estate-file-invalid",
            f"The file is not an estate.json that playbooks/monitoring.yml writes ({type(error).__name__}). "
            "Run the playbook again.",
        ) from None


def _host(raw: Mapping[str, Any]) -> ScrapedHost:
    name, site, address = (str(raw[field_name]) for field_name in ("name", "site", "address"))
    return ScrapedHost(
        name=name,
        site=site,
        address=address,
        exporters=_texts(raw["exporters"]),
        units=_texts(raw["units"]),
        runs=_texts(raw["runs"]),
        folders=_texts(raw["folders"]),
    )


def _texts(raw: Iterable[Any]) -> tuple[str, ...]:
    return tuple(str(text) for text in raw)


@dataclass(frozen=True, kw_only=True)
class HostScrape:
    """What a host's exporters gave. Times: seconds since 1970, around the scrape of the node exporter."""

    pages: Mapping[str, str]  # by exporter
    errors: Mapping[str, str]  # why an exporter gave none
    asked: float = 0.0
    answered: float = 0.0
    certificate_ends: Mapping[str, float] = field(default_factory=dict)  # that the host showed, by file


def host_facts(host: ScrapedHost, scrape: HostScrape) -> dict[str, Any]:
    """Return raw facts of a host, in the form in which a host gives them to `playbooks/status.yml`."""
    if not scrape.pages:
        reasons = [f"/{exporter}: {reason}" for exporter, reason in sorted(scrape.errors.items())]
        return {"error": reasons[0] if reasons else "it has no exporters"}
    facts: dict[str, Any] = {
        "unasked": UNASKED,
        "services": list(host.units),
        "runs": list(host.runs),
        "exporters": [exporter for exporter in host.exporters if exporter != NODE],
        "certificate_ends": dict(scrape.certificate_ends),
        "metrics": {exporter: page for exporter, page in scrape.pages.items() if exporter != NODE},
        "unmeasured": list(host.folders),
    }
    if page := scrape.pages.get(NODE):
        facts |= _node_facts(host, scrape, page)
    return facts


def _node_facts(host: ScrapedHost, scrape: HostScrape, page: str) -> dict[str, Any]:
    by_name: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, labels, value in samples(page):
        if name not in COLLECTED or frozenset(labels) in COLLECTED[name]:
            by_name.setdefault(name, []).append((labels, value))
    facts: dict[str, Any] = {}
    if (clock := _value(by_name, "node_time_seconds")) is not None:
        facts |= {"time": clock, "asked": scrape.asked, "answered": scrape.answered}
    if _value(by_name, "node_scrape_collector_success", collector="systemd") == 1:
        facts |= _units(host, by_name)
    measured, unmeasured = _disks(by_name, ["/", *host.folders])
    facts |= {"disks": measured, "unmeasured": unmeasured}
    texts = {
        name: page
        for name, prefix in TEXT_FILES.items()
        if name in host.runs and any(metric_name.startswith(prefix) for metric_name in by_name)
    }
    own = {exporter: text for exporter, text in scrape.pages.items() if exporter != NODE}
    return facts | {"metrics": texts | own}


def _value(by_name: NodeSamples, name: str, **labels: str) -> float | None:
    """Return the value of the one sample with these labels; None without it, or if there are several."""
    values = [value for has, value in by_name.get(name, ()) if has == labels]
    return values[0] if len(values) == 1 else None


def _values(by_name: NodeSamples, name: str, label: str) -> dict[str, list[float]]:
    """Return the values of a metric by one of its labels. More than one: not all are of the collector."""
    values: dict[str, list[float]] = {}
    for labels, value in by_name.get(name, ()):
        values.setdefault(labels[label], []).append(value)
    return values


def _units(host: ScrapedHost, by_name: NodeSamples) -> dict[str, Any]:
    """Return the states of units. The collector lists each unit that is loaded, and so each active one.

    A unit with two states is failed if one of them is failed. Otherwise, its state is unknown, and the unit
    is skipped.
    """
    listed = _unit_states(by_name)
    states = {unit: _one_state(unit_states) for unit, unit_states in listed.items()}
    triggers = {
        timer: values[0]
        for timer, values in _values(by_name, "node_systemd_timer_last_trigger_seconds", "name").items()
        if len(values) == 1
    }
    booted = _value(by_name, "node_boot_time_seconds")
    booted = booted if booted is not None and math.isfinite(booted) else None
    units = {unit: _unit(state) for unit in host.units if (state := states.get(_full(unit), "not loaded"))}
    for run in host.runs:
        state = states.get(_full(run), "")
        trigger = triggers.get(f"{run}.timer")
        # The state is that since the host started; of a run that lasts, the one before is not known.
        if state in ("inactive", "failed") and trigger is not None and booted is not None:
            units[run] = _unit(state, trigger if trigger >= booted else 0.0)
    return {
        "units": units,
        "failed_units": sorted(unit for unit, state in states.items() if state == "failed"),
    }


def _unit_states(by_name: NodeSamples) -> dict[str, list[str]]:
    """Return the states of each unit; of one that the collector alone lists, one state."""
    states: dict[str, list[str]] = {}
    samples_by_state: dict[tuple[str, str, str], int] = {}
    for labels, value in by_name.get("node_systemd_unit_state", ()):
        sample = (labels["name"], labels["state"], labels["type"])
        samples_by_state[sample] = samples_by_state.get(sample, 0) + 1
        if value == 1:
            states.setdefault(labels["name"], []).append(labels["state"])
    for (unit, state, _), count in samples_by_state.items():
        if count > 1 and unit in states:
            states[unit].append(state)
    return states


def _one_state(states: Sequence[str]) -> str:
    """Return the state of a unit; empty: unknown."""
    if len(states) == 1:
        return states[0]
    return "failed" if "failed" in states else ""


def _unit(state: str, ended: float = 0.0) -> dict[str, Any]:
    """Return the state of a unit; `ended`: the start of its last run, which is a little earlier."""
    result = "failed" if state == "failed" else "success"
    return {"state": state, "result": result, "changed": 0.0, "ended": ended}


def _full(unit: str) -> str:
    return unit if unit.endswith(SUFFIXES) else f"{unit}.service"


def _disks(by_name: NodeSamples, folders: Iterable[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the file system of each folder once, and the folders without figures.

    The file systems above it are returned, too: a mount point that a service wrote hides none of them. One
    that has several figures has the worst of them, and its folder counts as not measured.
    """
    figures = [
        _values(by_name, f"node_filesystem_{name}_bytes", "mountpoint") for name in ("size", "free", "avail")
    ]
    failed = {
        labels.get("mountpoint", "")
        for labels, value in by_name.get("node_filesystem_device_error", ())
        if value != 0
    }
    disk_by_mount: dict[str, dict[str, Any]] = {}
    unmeasured = []
    for folder in folders:
        path = PurePosixPath(folder)
        if any(path.is_relative_to(hidden) for hidden in HIDDEN):
            unmeasured.append(folder)
            continue
        mounts = [mount for mount in figures[0].keys() | failed if mount and path.is_relative_to(mount)]
        own = max(mounts, key=len, default="")
        for mount in sorted(mounts, key=len, reverse=True):
            if mount not in failed and (disk := _disk(figures, mount)):
                disk_by_mount.setdefault(mount, {"path": folder if mount == own else mount, **disk})
        is_certain = all(len(values.get(own, ())) == 1 for values in figures)
        if own in failed or not is_certain or own not in disk_by_mount:
            unmeasured.append(folder)
    return list(disk_by_mount.values()), unmeasured


def _disk(figures: Sequence[Mapping[str, Sequence[float]]], mount: str) -> dict[str, int]:
    """Return size and free space of a file system, the worst ones; nothing if they are not known."""
    sizes, free, available = (values.get(mount, ()) for values in figures)
    if not (sizes and free and available and all(map(math.isfinite, (*sizes, *free, *available)))):
        return {}
    # Like df: space that is reserved for root is not part of the size.
    return {"size": int(max(sizes) - min(free) + min(available)), "free": int(min(available))}
