"""Where a site's HDFS and metastores are, and what a settings' file of Hadoop holds."""

from xml.etree import ElementTree

from aqueduct.estate import hadoop

GROUPS = {
    "site_lake": ["lake-1", "lake-2", "lake-3"],
    "site_pro": ["pro-1"],
    "hdfs": ["lake-1", "lake-2", "lake-3"],
    "hive_metastore": ["lake-2", "lake-3"],
}
HOSTVARS = {
    "lake-1": {},
    "lake-2": {"hdfs_roles": ["namenode", "datanode"], "hdfs_host": "10.0.0.2", "hive_metastore_port": 9000},
    "lake-3": {"hive_metastore_host": "meta.example.com"},
    "pro-1": {},
}


def test_namenode_is_declared_and_datanode_is_default_role() -> None:
    assert hadoop.nodes(GROUPS, HOSTVARS, "lake", "namenode") == ["lake-2"]
    assert hadoop.nodes(GROUPS, HOSTVARS, "lake", "datanode") == ["lake-1", "lake-2", "lake-3"]


def test_hadoop_urls_have_site_hosts_and_ports() -> None:
    assert hadoop.hdfs_url(GROUPS, HOSTVARS, "lake", 8020) == "hdfs://10.0.0.2:8020"
    metastores = "thrift://lake-2:9000,thrift://meta.example.com:9083"
    assert hadoop.metastore_url(GROUPS, HOSTVARS, "lake", 9083) == metastores
    assert hadoop.hdfs_url(GROUPS, HOSTVARS, "pro", 8020) == ""
    assert hadoop.metastore_url(GROUPS, HOSTVARS, "pro", 9083) == ""


def test_settings_file_preserves_special_characters() -> None:
    text = hadoop.site_file({"password": "<a&b>'\"", "on": True, "number": 3})
    found = {each.findtext("name"): each.findtext("value") for each in ElementTree.fromstring(text)}  # noqa: S314 (it is our own)
    assert found == {"password": "<a&b>'\"", "on": "true", "number": "3"}
