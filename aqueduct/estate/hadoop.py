"""The nodes and addresses of a site's HDFS and Hive metastore."""

from collections.abc import Mapping
from xml.sax.saxutils import escape

from aqueduct.estate.model import Groups, HostVars, members

NAMENODE, DATANODE = "namenode", "datanode"
DEFAULT_ROLES = (DATANODE,)


def nodes(groups: Groups, hostvars: HostVars, site: str, role: str) -> list[str]:
    """Return a site's hosts whose `hdfs_roles` contain a role."""
    hosts = members(groups, site, "hdfs")
    return [host for host in hosts if role in hostvars[host].get("hdfs_roles", DEFAULT_ROLES)]


def hdfs_url(groups: Groups, hostvars: HostVars, site: str, default_port: int) -> str:
    """Return the URL of a site's HDFS without a path; empty if the site has none."""
    return next(
        (
            f"hdfs://{hostvars[host].get('hdfs_host', host)}:{hostvars[host].get('hdfs_port', default_port)}"
            for host in nodes(groups, hostvars, site, NAMENODE)
        ),
        "",
    )


def metastore_url(groups: Groups, hostvars: HostVars, site: str, default_port: int) -> str:
    """Return the addresses of a site's metastores in the format of Hive clients; empty if it has none."""
    return ",".join(
        f"thrift://{hostvars[host].get('hive_metastore_host', host)}"
        f":{hostvars[host].get('hive_metastore_port', default_port)}"
        for host in members(groups, site, "hive_metastore")
    )


def site_file(settings: Mapping[str, object]) -> str:
    """Return the text of a `-site.xml` of Hadoop or Hive."""
    properties = (
        f"  <property><name>{escape(name)}</name><value>{escape(_text(value))}</value></property>\n"
        for name, value in sorted(settings.items())
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{"".join(properties)}</configuration>\n'


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
