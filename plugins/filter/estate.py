"""Filters that tell a role about its site and the rest of the estate. All of it is in `aqueduct.estate`."""

from collections.abc import Callable
from dataclasses import asdict
from functools import cache, wraps
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.yaml import yaml_load

from aqueduct.errors import AqueductError
from aqueduct.estate import (
    acls,
    bundles,
    classic_mirror,
    connectors,
    diagnosis,
    hadoop,
    kafka_tools,
    links,
    mirror_engines,
    model,
    schema_registry,
    spark,
    zookeeper,
)
from aqueduct.estate import site_hosts as hosts_of_site
from aqueduct.kafka import line
from aqueduct.store.bucket_policy import RIGHTS

MIRRORS = "/etc/aqueduct/mirror_maker"  # the role's folder on its hosts
ROLES = Path(__file__).resolve().parents[2] / "roles"

Json = dict[str, Any]


@cache
def _defaults(role: str = "kafka") -> Json:
    """Return a role's defaults. Only plain values are used, never templates."""
    return dict(yaml_load((ROLES / role / "defaults/main.yml").read_text()))


def _number(variables: Json, role: str, name: str) -> int:
    return int(variables.get(name, _defaults(role)[name]))


def site_name(group_names: list[str]) -> str:
    """`group_names | site_name`: the site of this host."""
    return model.site_name(group_names)


def brokers(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | brokers(hostvars, site)`: its brokers, as `aqueduct.estate.model.Node` with `address`."""
    return [_node(node) for node in _site(groups, hostvars, site).brokers]


def controllers(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | controllers(hostvars, site)`: the same of its controllers, with `controller_address`."""
    return [_node(node) for node in _site(groups, hostvars, site).controllers]


def bootstrap_servers(groups: model.Groups, hostvars: model.HostVars, site: str) -> str:
    """`groups | bootstrap_servers(hostvars, site)`: `host:port` of every broker, for clients."""
    return ",".join(node.address for node in _site(groups, hostvars, site).brokers)


def kafka_tool_files(version: str, home: str, folder: str) -> list[Json]:
    """`version | kafka_tool_files(home, folder)`: files for `service_files`, Kafka's tools as scripts."""
    scripts = kafka_tools.tool_scripts(version, home)
    return [{"dest": f"{folder}/{name}", "content": text, "mode": "0755"} for name, text in scripts.items()]


def flows(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | flows(hostvars, site)`: the flows that arrive at a site, as `aqueduct.estate.model.Flow` with
    its properties and `servers`, the source's brokers; without `source_settings`, which may be secret."""
    arriving = model.read_flows(groups, hostvars, site)
    return [{**_flow(flow), "servers": _servers(groups, hostvars, flow)} for flow in arriving]


def source_settings(groups: model.Groups, hostvars: model.HostVars, site: str, name: str) -> Json:
    """`groups | source_settings(hostvars, site, flow)`: a client's, of a source outside the estate."""
    return dict(_named_flow(groups, hostvars, site, name).source_settings)


def mirror_options(groups: model.Groups, hostvars: model.HostVars, site: str, name: str) -> Json:
    """`groups | mirror_options(hostvars, site, flow)`: those of `aqueduct mirror` for a flow to a site."""
    flow = _named_flow(groups, hostvars, site, name)
    own = f"{MIRRORS}/tls/client.properties"
    options = {
        "flow": flow.name,
        "source-bootstrap-server": _servers(groups, hostvars, flow),
        "target-bootstrap-server": bootstrap_servers(groups, hostvars, site),
        "source-command-config": f"{MIRRORS}/{flow.name}/client.properties" if flow.source_servers else own,
        "target-command-config": own,
    }
    if flow.engine == "classic":
        options |= {"group": flow.group, "target-prefix": flow.prefix}
    elif flow.engine == "batches":
        options |= {"engine": "batches"}
    return options if flow.engine == "mm2" else options | {"topics-pattern": flow.topics_pattern}


def engine_changes(flows: list[Json], paths: list[str]) -> list[Json]:
    """`flows | engine_changes(paths)`: the flows whose engine is another one than that of the deployed files,
    as `aqueduct.estate.mirror_engines.EngineChange`."""
    declared = {flow["name"]: flow["engine"] for flow in flows}
    return [asdict(change) for change in mirror_engines.engine_changes(paths, declared)]


def line_settings(settings: Json, milliseconds: Any, mbit: Any) -> Json:
    """`settings | line_settings(line_ms, line_mbit)`: a consumer's, whose fetches fill the line."""
    return line.with_line(settings, int(milliseconds), int(mbit))


def classic_consumer(
    groups: model.Groups,
    hostvars: model.HostVars,
    site: str,
    name: str,
    access: Json,
    tuning: Json,
    refresh: Any,
) -> Json:
    """`groups | classic_consumer(hostvars, site, flow, access, tuning, refresh_seconds)`: its properties."""
    flow = _named_flow(groups, hostvars, site, name)
    servers = _servers(groups, hostvars, flow)
    return classic_mirror.consumer(flow, servers, access, tuning, int(refresh))


def classic_producer(
    groups: model.Groups,
    hostvars: model.HostVars,
    site: str,
    name: str,
    access: Json,
    tuning: Json,
    host: str,
) -> Json:
    """`groups | classic_producer(hostvars, site, flow, access, tuning, host)`: its properties there."""
    flow = _named_flow(groups, hostvars, site, name)
    servers = bootstrap_servers(groups, hostvars, site)
    return classic_mirror.producer(flow, servers, access, tuning, host)


def classic_arguments(
    groups: model.Groups, hostvars: model.HostVars, site: str, name: str, folder: str, commit: Any
) -> list[str]:
    """`groups | classic_arguments(hostvars, site, flow, folder, commit_seconds)`: its class and arguments."""
    return classic_mirror.arguments(_named_flow(groups, hostvars, site, name), folder, int(commit))


def argument_file(arguments: list[str]) -> str:
    """`arguments | argument_file`: as `java @FILE` reads them."""
    return classic_mirror.argument_file(arguments)


def site_acls(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | site_acls(hostvars, site)`: all that principals may do at a site, as entries of `kafka_acls`:
    what is declared, and what services need; nothing of those whose rights are revoked."""
    host = hostvars[model.members(groups, site, "kafka")[0]]
    revoked = host.get("kafka_revoked_principals", ())
    entries = [
        *host.get("kafka_acls", ()),
        *flow_acls(groups, hostvars, site),
        *link_acls(groups, hostvars, site),
        *connect_acls(groups, hostvars, site),
        *backup_acls(groups, site),
        *drill_acls(groups, hostvars, site),
        *land_acls(groups, hostvars, site),
        *schema_registry_acls(groups, site),
        *monitoring_acls(groups),
    ]
    return [entry for entry in entries if entry["principal"] not in revoked]


def flow_acls(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | flow_acls(hostvars, site)`: what flows need at a site, as entries of `kafka_acls`."""
    return [_acl(acl) for acl in acls.flow_acls(site, model.read_all_flows(groups, hostvars))]


def backup_acls(groups: model.Groups, site: str) -> list[Json]:
    """`groups | backup_acls(site)`: the same for the backup of a site, if it has one."""
    return [_acl(acl) for acl in acls.backup_acls(site)] if model.members(groups, site, "backup") else []


def drill_acls(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | drill_acls(hostvars, site)`: the same for drills of a site's backup, wherever they are."""
    drilling = [
        own
        for own in model.site_names(groups)
        for host in model.members(groups, own, "drill")
        if hostvars[host].get("drill_site", own) == site and hostvars[host].get("drill_live", True)
    ]
    return [_acl(acl) for acl in acls.drill_acls(drilling)]


def land_acls(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | land_acls(hostvars, site)`: the same for the landings of a site, if it has some."""
    hosts = model.members(groups, site, "land")
    tables = [table for host in hosts for table in hostvars[host].get("land_tables", ())]
    given = [table["topics"] for table in tables]
    topics = sorted({topic for names in given for topic in ([names] if isinstance(names, str) else names)})
    return [_acl(acl) for acl in acls.land_acls(site, topics)] if topics else []


def schema_registry_acls(groups: model.Groups, site: str) -> list[Json]:
    """`groups | schema_registry_acls(site)`: the same for the schema registry of a site, if it has one."""
    has_one = model.members(groups, site, "schema_registry")
    return [_acl(acl) for acl in acls.schema_registry_acls(site)] if has_one else []


def monitoring_acls(groups: model.Groups) -> list[Json]:
    """`groups | monitoring_acls`: the same for `aqueduct status --estate` on monitored hosts of any site."""
    sites = [site for site in model.site_names(groups) if model.members(groups, site, "monitoring")]
    return [_acl(acl) for acl in acls.monitoring_acls(sites)]


def schema_registry_topics(groups: model.Groups, site: str) -> list[Json]:
    """`groups | schema_registry_topics(site)`: its topics, as entries of `kafka_topics`."""
    return schema_registry.topics(site) if model.members(groups, site, "schema_registry") else []


def schema_registry_url(groups: model.Groups, hostvars: model.HostVars, site: str) -> str:
    """`groups | schema_registry_url(hostvars, site)`: for landings; empty where the site has none."""
    port = _number({}, "schema_registry", "schema_registry_port")
    return schema_registry.url(groups, hostvars, site, port)


def schema_registry_settings(site: str, servers: str, host: str, port: int, key: str, ca: str) -> Json:
    """`site | schema_registry_settings(servers, host, port, key, ca)`: what it runs with."""
    return dict(schema_registry.settings(site, servers, host, port, key=key, ca=ca))


def properties_file(properties: Json) -> str:
    """`properties | properties_file`: as programs of Java read them."""
    return schema_registry.properties_file(properties)


def with_registry(tables: list[Json], url: str, config: str) -> list[Json]:
    """`land_tables | with_registry(url, config)`: with a registry, where they name none and want one."""
    return schema_registry.with_registry(tables, url, config)


def managed_principals(revoked: list[str]) -> str:
    """`revoked | managed_principals`: who keeps no undeclared rights, as a regular expression."""
    return acls.managed_principals(revoked)


def readers(
    groups: model.Groups, hostvars: model.HostVars, site: str, topics: list[str] | None = None
) -> list[Json]:
    """`groups | readers(hostvars, site, topics)`: the services that read these topics of a site, or any of
    its topics without `topics`, as `aqueduct.estate.links.Reader`."""
    return [asdict(reader) for reader in links.read_readers(groups, hostvars, site, topics)]


def noted_readers(groups: model.Groups, hostvars: model.HostVars, site: str, noted: Any) -> list[Json]:
    """`groups | noted_readers(hostvars, site, noted)`: the declared readers of a site that its backup host
    noted, as `readers` has them."""
    site_readers = links.read_readers(groups, hostvars, site)
    return [asdict(reader) for reader in links.noted_readers(site_readers, noted)]


def reader_options(groups: model.Groups, hostvars: model.HostVars, site_readers: list[Json]) -> list[str]:
    """`groups | reader_options(hostvars, readers)`: options of `aqueduct restore` for these readers."""
    mirrors = sorted(
        {
            (reader["flow"], reader["target"])
            for reader in site_readers
            if reader["engine"] in ("mm2", "batches")  # a restore refuses the latter
        }
    )
    return [
        *(f"--mirror={flow}={bootstrap_servers(groups, hostvars, target)}" for flow, target in mirrors),
        *(f"--link={reader['group']}" for reader in site_readers if reader["group"]),
    ]


def links_to(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | links_to(hostvars, site)`: the links that arrive at a site, as `aqueduct.estate.links.Link`
    with its properties."""
    return [_link(link) for link in links.read_links(groups, hostvars, site)]


def links_from(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | links_from(hostvars, site)`: the same of those that leave it."""
    return [_link(link) for link in links.read_links_from(groups, hostvars, site)]


def ledgers(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | ledgers(hostvars, site)`: what its dedup works on, as `aqueduct.estate.links.DedupWork`."""
    return [asdict(ledger) for ledger in links.ledgers(links.read_links(groups, hostvars, site))]


def site_bundles(groups: model.Groups, hostvars: model.HostVars, site: str, folder: str) -> list[Json]:
    """`groups | site_bundles(hostvars, site, folder)`: the bundles of a site in a folder of the control node,
    as `aqueduct.estate.bundles.SiteBundle`; its links are as those of `links_from`."""
    return [
        {**asdict(bundle), "links": [*map(_link, bundle.links)]}
        for bundle in bundles.read_bundles(groups, hostvars, site, folder)
    ]


def link_topics(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | link_topics(hostvars, site)`: its raw and gap topics, as entries of `kafka_topics`."""
    arriving = links.read_links(groups, hostvars, site)
    if not arriving:
        return []
    [host, *_] = model.members(groups, site, "diode_downstream")
    return links.topics(
        arriving,
        partitions=_number(hostvars[host], "diode_downstream", "diode_downstream_partitions"),
        retention_hours=_number(hostvars[host], "diode_downstream", "diode_downstream_retention_hours"),
    )


def link_acls(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | link_acls(hostvars, site)`: what links need at a site, as entries of `kafka_acls`."""
    arriving = links.read_links(groups, hostvars, site)
    leaving = links.read_links_from(groups, hostvars, site)
    return [_acl(acl) for acl in acls.link_acls(site, arriving, leaving)]


def connect_topics(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | connect_topics(hostvars, site)`: its own topics and the dead-letter topics, as entries
    of `kafka_topics`."""
    hosts = model.members(groups, site, "connect")
    if not hosts:
        return []
    declared = (hostvars[host].get("kafka_topics") or () for host in model.members(groups, site, "kafka")[:1])
    return connectors.topics(
        site,
        connectors.read_connectors(groups, hostvars, site),
        letters_mebibytes=_number(hostvars[hosts[0]], "connect", "connect_dead_letters_mebibytes"),
        declared=[topic["name"] for topics in declared for topic in topics],
    )


def connect_acls(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | connect_acls(hostvars, site)`: what Connect needs at a site, as entries of `kafka_acls`."""
    if not model.members(groups, site, "connect"):
        return []
    return [_acl(acl) for acl in acls.connect_acls(site, connectors.read_connectors(groups, hostvars, site))]


def connectors_of(groups: model.Groups, hostvars: model.HostVars, site: str, replicas: int) -> list[Json]:
    """`groups | connectors_of(hostvars, site, replicas)`: its connectors: `name`, `state` and, unless absent,
    `config` as Connect gets it. `replicas`: how many its topics have."""
    return [
        {"name": connector.name, "state": connector.state}
        | ({} if connector.state == "absent" else {"config": connector.full_config(replicas)})
        for connector in connectors.read_connectors(groups, hostvars, site)
    ]


def dead_letters(groups: model.Groups, hostvars: model.HostVars, site: str, connector: str) -> str:
    """`groups | dead_letters(hostvars, site, connector)`: the dead-letter topic of a connector; empty
    where it has none, or the site has no such connector."""
    site_connectors = connectors.read_connectors(groups, hostvars, site)
    return next((declared.dead_letters for declared in site_connectors if declared.name == connector), "")


def all_dead_letters(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[str]:
    """`groups | all_dead_letters(hostvars, site)`: the dead-letter topics of all connectors of a site."""
    site_connectors = connectors.read_connectors(groups, hostvars, site)
    return sorted(
        {declared.dead_letters for declared in site_connectors if declared.state != "absent"} - {""}
    )


def letters_topics(groups: model.Groups, hostvars: model.HostVars, site: str, letters: str) -> list[str]:
    """`groups | letters_topics(hostvars, site, letters)`: what the sinks read whose dead-letter records go to
    this topic, as patterns."""
    site_connectors = connectors.read_connectors(groups, hostvars, site)
    return sorted(
        {
            topic
            for connector in site_connectors
            if connector.dead_letters == letters
            for topic in connector.reads
        }
    )


def connect_worker(site: str) -> Json:
    """`site | connect_worker`: the properties by which a site's workers find each other."""
    return {"group.id": connectors.worker_group(site), **connectors.internal_topics(site)}


def spark_url(groups: model.Groups, hostvars: model.HostVars, site: str) -> str:
    """`groups | spark_url(hostvars, site)`: its own masters, or `local[*]` where it has none."""
    return spark.own_master(groups, hostvars, site, _number({}, "spark_master", "spark_master_port"))


def spark_master_host(groups: model.Groups, hostvars: model.HostVars, master: str) -> str:
    """`groups | spark_master_host(hostvars, url)`: the host of its first master, empty if it is not ours."""
    return spark.master_host(groups, hostvars, master)


def spark_site(groups: model.Groups, host: str) -> str:
    """`groups | spark_site(host)`: the site of a master; empty without a host."""
    return spark.site_of(groups, host)


def spark_page_urls(groups: model.Groups, hostvars: model.HostVars, site: str, role: str) -> list[str]:
    """`groups | spark_page_urls(hostvars, site, role)`: the pages of a site's masters, workers or history
    servers."""
    return [
        f"https://{spark.address(host, hostvars)}:{_number(hostvars[host], role, f'{role}_page_port')}"
        for host in model.members(groups, site, role)
    ]


def spark_defaults(properties: Json) -> str:
    """`properties | spark_defaults`: as a `spark-defaults.conf` has them."""
    return spark.defaults_file(properties)


def spark_pages(folder: str, password: str) -> Json:
    """`folder | spark_pages(password)`: settings of pages, with a principal's stores in the folder."""
    return dict(spark.pages(folder, password))


def hdfs_url(groups: model.Groups, hostvars: model.HostVars, site: str) -> str:
    """`groups | hdfs_url(hostvars, site)`: `hdfs://host:port` of its NameNode; empty where it has none."""
    return hadoop.hdfs_url(groups, hostvars, site, _number({}, "hdfs", "hdfs_port"))


def hdfs_nodes(groups: model.Groups, hostvars: model.HostVars, site: str, role: str) -> list[str]:
    """`groups | hdfs_nodes(hostvars, site, role)`: hosts of its HDFS that are `namenode` or `datanode`."""
    return hadoop.nodes(groups, hostvars, site, role)


def metastore_url(groups: model.Groups, hostvars: model.HostVars, site: str) -> str:
    """`groups | metastore_url(hostvars, site)`: `thrift://host:port,...`; empty where it has none."""
    return hadoop.metastore_url(groups, hostvars, site, _number({}, "hive_metastore", "hive_metastore_port"))


def site_hosts(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[list[str]]:
    """`groups | site_hosts(hostvars, site)`: the names of each of its hosts, under which others reach it."""
    return hosts_of_site.site_hosts(groups, hostvars, site)


def site_file(settings: Json) -> str:
    """`settings | site_file`: as a `-site.xml` has them."""
    return hadoop.site_file(settings)


def zookeeper_servers(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[Json]:
    """`groups | zookeeper_servers(hostvars, site)`: the servers of its ensemble, as
    `aqueduct.estate.zookeeper.Server` with `address` and `election_address`."""
    named = ("address", "election_address")
    return [
        {**asdict(server), **{name: getattr(server, name) for name in named}}
        for server in _ensemble(groups, hostvars, site)
    ]


def zookeeper_connect(groups: model.Groups, hostvars: model.HostVars, site: str) -> str:
    """`groups | zookeeper_connect(hostvars, site)`: `host:port,...` of its ensemble; empty without one."""
    return zookeeper.connect(_ensemble(groups, hostvars, site))


def zookeeper_owners(groups: model.Groups, hostvars: model.HostVars, site: str) -> list[str]:
    """`groups | zookeeper_owners(hostvars, site)`: distinguished names of its brokers' certificates."""
    return zookeeper.owners(groups, hostvars, site)


def zookeeper_settings(
    groups: model.Groups,
    hostvars: model.HostVars,
    site: str,
    number: int,
    directory: str,
    key: str,
    ca: str,
    super_user: str,
    quorum: str,
) -> Json:
    """`groups | zookeeper_settings(hostvars, site, id, directory, key, ca, super_user, quorum)`: what a
    server runs with."""
    return dict(
        zookeeper.settings(
            int(number),
            _ensemble(groups, hostvars, site),
            directory=directory,
            key=key,
            ca=ca,
            super_user=super_user,
            quorum=quorum,
        )
    )


def zookeeper_client_settings(connect: str, key: str, ca: str) -> Json:
    """`connect | zookeeper_client_settings(key, ca)`: what a broker reaches an ensemble with."""
    return dict(zookeeper.client_settings(connect, key, ca))


def _ensemble(groups: model.Groups, hostvars: model.HostVars, site: str) -> tuple[zookeeper.Server, ...]:
    return zookeeper.servers(groups, hostvars, site, _defaults("zookeeper"))


def _link(link: links.Link) -> Json:
    names = ("name", "sent_as", "raw_topic", "gap_topic", "group", "topics_pattern", "targets")
    return {**asdict(link), **{name: getattr(link, name) for name in names}}


def _site(groups: model.Groups, hostvars: model.HostVars, site: str) -> model.Site:
    return model.read_site(groups, hostvars, _defaults(), site)


def _node(node: model.Node) -> Json:
    return {**asdict(node), "address": node.address, "controller_address": node.controller_address}


def _acl(acl: acls.DeclaredAcl) -> Json:
    return {**asdict(acl), "operations": list(acl.operations)}


def _flow(flow: model.Flow) -> Json:
    names = ("name", "prefix", "topics_pattern", "groups_pattern", "group", "isolation")
    properties = {**asdict(flow), **{name: getattr(flow, name) for name in names}}
    del properties["source_settings"]
    return properties


def _named_flow(groups: model.Groups, hostvars: model.HostVars, site: str, name: str) -> model.Flow:
    return next(flow for flow in model.read_flows(groups, hostvars, site) if flow.name == name)


def _servers(groups: model.Groups, hostvars: model.HostVars, flow: model.Flow) -> str:
    return ",".join(flow.source_servers) or bootstrap_servers(groups, hostvars, flow.source)


def uncompared_flows(groups: model.Groups, hostvars: model.HostVars) -> list[str]:
    """`groups | uncompared_flows(hostvars)`: the finding about flows that no host compares."""
    return diagnosis.uncompared(
        [f"{flow.name} to {flow.target}" for flow in model.read_uncompared(groups, hostvars)]
    )


def uncompared_links(groups: model.Groups, hostvars: model.HostVars, hosts: list[str]) -> list[str]:
    """`groups | uncompared_links(hostvars, hosts)`: a finding for each link without a ledger to a site of
    these hosts, unless the site accepts it."""
    return diagnosis.uncompared_links(links.read_uncompared_links(groups, hostvars, hosts))


def comparison_findings(hosts: list[str], hostvars: model.HostVars) -> list[str]:
    """`ansible_play_hosts_all | comparison_findings(hostvars)`: what differs, and who did not compare."""
    return diagnosis.comparison_findings({host: hostvars[host] for host in hosts})


def doctor_findings(hosts: list[str], hostvars: model.HostVars) -> list[str]:
    """`ansible_play_hosts_all | doctor_findings(hostvars)`: what was found, and who did not answer."""
    return diagnosis.findings({host: hostvars[host] for host in hosts})


def doctor_nothing_found(hosts: list[str], hostvars: model.HostVars) -> str:
    """`ansible_play_hosts_all | doctor_nothing_found(hostvars)`: what was asked, where nothing was found."""
    return diagnosis.nothing_found({host: hostvars[host] for host in hosts})


def missing_offsets(result: Json) -> str:
    """`results | map('missing_offsets')`: what a ledger lacks of a partition, as a sentence."""
    return diagnosis.missing_offsets(result)


def ill_flows(results: list[Json], site: str) -> list[str]:
    """`results | ill_flows(site)`: lines about the flows to a site whose tasks do not run."""
    return diagnosis.ill_flows(results, site)


def unequal_flows(results: list[Json], site: str) -> list[str]:
    """`results | unequal_flows(site)`: lines about the flows to a site whose ends are not equal."""
    return diagnosis.unequal_flows(results, site)


def changed_ids(hosts: list[str], hostvars: model.HostVars) -> list[str]:
    """`ansible_play_hosts | changed_ids(hostvars)`: of each broker the id that its logs have."""
    return [
        diagnosis.changed_id(host, hostvars[host]["__kafka_broker_ids_id"], hostvars[host]["kafka_node_id"])
        for host in hosts
    ]


def raised_levels(raised: Json, levels: Json) -> list[str]:
    """`raised | raised_levels(levels)`: the features whose levels rise, with both levels."""
    return [f"{feature}: from {levels[feature]} to {level}" for feature, level in sorted(raised.items())]


def inspection_options(brokers: list[Json], hostvars: model.HostVars, folder: str) -> list[str]:
    """`brokers | inspection_options(hostvars, folder)`: those of `aqueduct quorum` about logs."""
    return [
        f"--lost={broker['node_id']}"
        if hostvars[broker["host"]]["__kafka_inspection"].get("skipped")
        else f"--inspection={folder}/{broker['host']}.json"
        for broker in brokers
    ]


def bucket_users(buckets: list[Json]) -> list[str]:
    """`buckets | bucket_users`: all who have a right in a bucket, or below a prefix of one."""
    places = [resource for bucket in buckets for resource in (bucket, *(bucket.get("prefixes") or ()))]
    return sorted({user for resource in places for right in RIGHTS for user in resource.get(right) or ()})


def _in_ansible(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def filter_function(*args: Any) -> Any:
        try:
            return function(*args)
        except AqueductError as error:
            raise AnsibleFilterError(error.labelled) from error

    return filter_function


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        every = (
            site_name,
            brokers,
            controllers,
            bootstrap_servers,
            kafka_tool_files,
            flows,
            engine_changes,
            mirror_options,
            site_acls,
            readers,
            noted_readers,
        )
        every += (schema_registry_topics, schema_registry_url)
        every += (schema_registry_settings, properties_file, with_registry)
        every += (
            managed_principals,
            line_settings,
            classic_consumer,
            classic_producer,
            classic_arguments,
            argument_file,
        )
        every += (
            source_settings,
            doctor_findings,
            doctor_nothing_found,
            uncompared_flows,
            comparison_findings,
            uncompared_links,
        )
        every += (reader_options, links_to, links_from, site_bundles, ledgers, link_topics)
        every += (connect_topics, connectors_of, connect_worker)
        every += (dead_letters, all_dead_letters, letters_topics)
        every += (spark_url, spark_page_urls, spark_master_host, spark_site, spark_defaults, spark_pages)
        every += (hdfs_url, hdfs_nodes, metastore_url, site_file)
        every += (zookeeper_servers, zookeeper_connect, zookeeper_owners, zookeeper_settings)
        every += (zookeeper_client_settings, bucket_users, site_hosts)
        every += (missing_offsets, ill_flows, unequal_flows, changed_ids, raised_levels, inspection_options)
        return {function.__name__: _in_ansible(function) for function in every}
