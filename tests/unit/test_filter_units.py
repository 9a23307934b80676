"""Filters for units: what a command of a role gets to run in a service's sandbox."""

from types import ModuleType

import pytest
import yaml
from kit.plugin_modules import load_filters


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    return load_filters("units")


def test_command_runs_sandboxed_as_user_and_returns_output(plugin: ModuleType) -> None:
    command = plugin.sandboxed(["/bin/x", "--pattern=a$", 7], "kafka", "/srv/a /srv/b", {"UMask": "0077"})
    at = command.index("--")
    assert command[:5] == ["systemd-run", "--quiet", "--wait", "--pipe", "--collect"]
    assert command[at + 1 :] == ["/bin/x", "--pattern=a$$", "7"]
    properties = dict(each.removeprefix("--property=").split("=", 1) for each in command[5:at])
    assert properties == {
        "User": "kafka",
        "Group": "kafka",
        "MemoryMax": "75%",
        "UMask": "0077",
        "ReadWritePaths": "/srv/a /srv/b",
        **plugin.HARDENED,
    }
    assert properties["ProtectProc"] == "invisible"


def test_a_command_that_writes_nothing_may_write_nowhere(plugin: ModuleType) -> None:
    command = plugin.sandboxed(["/bin/x"], "kafka")
    assert "--property=ProtectSystem=strict" in command
    assert not [each for each in command if "ReadWritePaths" in each]


@pytest.mark.parametrize(
    ("folders", "upper"),
    [
        ("/var/lib/hdfs /var/lib/hdfs/names", "/var/lib/hdfs"),
        ("/a/b/c /a /a/b /ab", "/a /ab"),
        ("/a/ -/a/b +/c -/a", "/a/ +/c"),
        ("-/a /b", "-/a /b"),
    ],
)
def test_no_writable_folder_is_below_another(plugin: ModuleType, folders: str, upper: str) -> None:
    """The service could put a link in its place, which systemd follows at the next start."""
    assert plugin.hardened({}, "kafka", folders)["ReadWritePaths"] == upper


def test_options_agree_in_file_and_on_command_line(plugin: ModuleType) -> None:
    given = {"topics": ["a", "b"], "store": 's3://x/"y"', "keep-last": 0, "execute": True}
    left_out = {"recipient": "", "exclude-groups": [], "no-acls": False, "metastore": None}
    text = plugin.option_file(given | left_out)
    assert yaml.safe_load(text) == given | {"keep-last": "0"}
    assert plugin.option_words(given | left_out) == [
        "--topics=a,b", '--store=s3://x/"y"', "--keep-last=0", "--execute",
    ]  # fmt: skip


def test_file_without_content_is_removed(plugin: ModuleType) -> None:
    owned = {"owner": "kafka", "mode": "0600"}
    assert plugin.folder_files({"a.yml": "x: 1", "b": None, "c": ""}, "/etc/x", "kafka") == [
        {"dest": "/etc/x/a.yml", "content": "x: 1", **owned},
        {"dest": "/etc/x/b", "state": "absent", **owned},
        {"dest": "/etc/x/c", "content": "", **owned},
    ]


def test_memory_limit_is_share_of_host_unless_set(plugin: ModuleType) -> None:
    assert plugin.hardened({}, "kafka")["MemoryMax"] == "75%"
    assert plugin.hardened({"MemoryMax": "512M"}, "kafka")["MemoryMax"] == "512M"


def test_a_pattern_becomes_one_instance_for_each_name(plugin: ModuleType) -> None:
    pattern = {"name": "dedup@%i", "files": ["/etc/%i", "/srv"], "serves": True}
    assert plugin.instances(["pro1", "pro2"], pattern, {"port": "9500"}) == [
        {"name": "dedup@pro1", "files": ["/etc/pro1", "/srv"], "serves": True, "port": 9500},
        {"name": "dedup@pro2", "files": ["/etc/pro2", "/srv"], "serves": True, "port": 9501},
    ]
    assert plugin.instances([], pattern) == []
    assert plugin.instances(["a"], [{"path": "/%i"}]) == [[{"path": "/a"}]]
