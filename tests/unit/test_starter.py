"""`aqueduct init`: a user's own repository."""

import os
import re
from pathlib import Path

import pytest
import yaml

from aqueduct import cli
from aqueduct.control_node.starter.inventory import inventory_files
from aqueduct.control_node.starter.repository import SHARED
from aqueduct.control_node.starter.sites import parse_sites

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "aqueduct/control_node/starter/files"


def init(folder: Path, *options: str) -> int:
    return cli.main(["init", str(folder), *options])


def written(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_lab", [False, True])
def test_each_host_belongs_to_exactly_one_site(is_lab: bool) -> None:
    files = inventory_files(parse_sites("pro1,pro2,lake1,dw2"), is_lab=is_lab)
    groups = yaml.safe_load(files["hosts.yml"])["all"]["children"]
    sites = {name: {*group["hosts"]} for name, group in groups.items() if name.startswith("site_")}
    assert {*sites} == {"site_pro1", "site_pro2", "site_lake1", "site_dw2"}
    every = [host for hosts in sites.values() for host in hosts]
    assert len(every) == len({*every})
    services = {
        name: group["hosts"] for name, group in groups.items() if "hosts" in group and name not in sites
    }
    assert {host for hosts in services.values() for host in hosts} == {*every}
    assert ("lab" in groups) == is_lab
    ports = [host.get("lab_published_port") for host in groups["kafka"]["hosts"].values()]
    assert len({*ports}) == (4 if is_lab else 1)


def test_a_lake_mirrors_each_production_site() -> None:
    files = inventory_files(parse_sites("pro1,lake1,pro2"), is_lab=False)
    lake = yaml.safe_load(files["group_vars/site_lake1.yml"])
    assert [flow["source"] for flow in lake["mirror_maker_flows"]] == ["pro1", "pro2"]
    [bucket] = lake["object_store_buckets"]
    example = yaml.safe_load((ROOT / "inventories/example/group_vars/site_dwpro1.yml").read_text())
    assert bucket["locked_days"] == example["object_store_buckets"][0]["locked_days"] > 0
    assert bucket["prefixes"] == [
        {"name": "pro1", "write": ["backup-pro1"]},
        {"name": "pro2", "write": ["backup-pro2"]},
    ]
    assert "mirror_maker_flows" not in yaml.safe_load(files["group_vars/site_pro1.yml"])


def test_files_are_written_and_their_names_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path / "own", "--sites=pro1,lake1", "--name=prod") == 0
    files = written(tmp_path / "own")
    printed = capsys.readouterr().out
    assert all(str(tmp_path / "own" / path) in printed for path in files)
    assert {"ansible.cfg", ".gitignore", "README.md", "requirements.yml", "requirements.txt"} <= {*files}
    assert {".github/workflows/check.yml", "inventories/prod/hosts.yml"} <= {*files}
    version = (ROOT / "VERSION").read_text().strip()
    assert f"aqueduct-estate[controller]=={version}" in files["requirements.txt"]
    [collection] = yaml.safe_load(files["requirements.yml"])["collections"]
    assert collection == {"name": "aqueduct.estate", "version": f"=={version}"}
    assert "inventory = inventories/prod\n" in files["ansible.cfg"]
    assert not any("$name" in text or "$version" in text for text in files.values())
    for path, text in files.items():
        if path.endswith(".yml"):
            yaml.safe_load(text)


VERSION = (ROOT / "VERSION").read_text().strip()
WHEEL, TARBALL = f"aqueduct_estate-{VERSION}-py3-none-any.whl", f"aqueduct-estate-{VERSION}.tar.gz"


def release(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("folder", "path"), [("files", "../files"), (".", ".."), ("own/the release", "the release"), ("own", ".")]
)
def test_release_files_are_required_by_relative_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    release(tmp_path / folder, WHEEL, TARBALL)
    assert init(Path("own"), f"--from={folder}") == 0
    own = tmp_path / "own"
    assert (own / "requirements.txt").read_text() == f"{path}/{WHEEL}[controller]\n"
    [collection] = yaml.safe_load((own / "requirements.yml").read_text())["collections"]
    assert collection == {"name": f"{path}/{TARBALL}", "type": "file"}
    assert (own / path / WHEEL).is_file()


@pytest.mark.parametrize("names", [(), (WHEEL,), (TARBALL,), (WHEEL, "aqueduct-estate-9.9.9.tar.gz")])
def test_folder_with_incomplete_release_is_refused(
    tmp_path: Path, names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = release(tmp_path / "files", *names)
    assert init(tmp_path / "own", f"--from={folder}") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "[init-release-missing]" in line
    assert [name for name in (WHEEL, TARBALL) if name in line] == [
        name for name in (WHEEL, TARBALL) if name not in names
    ]
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_nothing_is_overwritten(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "README.md"
    if kind == "file":
        taken.write_text("mine")
    else:
        taken.symlink_to(tmp_path / "elsewhere")
    assert init(tmp_path) == 2
    assert "[init-file-exists]" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_a_folder_with_other_files_keeps_them(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "notes").write_text("mine")
    assert init(tmp_path) == 0
    assert (tmp_path / "notes").read_text() == "mine"
    before = written(tmp_path)
    assert init(tmp_path) == 2
    assert written(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "identifier"),
    [
        (["--sites="], "site-name-invalid"),
        (["--sites=pro1,"], "site-name-invalid"),
        (["--sites=pro1, lake1"], "site-name-invalid"),
        (["--sites=Pro1"], "site-name-invalid"),
        (["--sites=pro-1"], "site-name-invalid"),
        (["--sites=../x"], "site-name-invalid"),
        (["--sites=pro1,pro1"], "site-repeated"),
        (["--sites=lake1,dw1"], "sites-without-source"),
        (["--name=../x"], "inventory-name-invalid"),
        (["--name="], "inventory-name-invalid"),
        (["--site=pro1"], "usage-error"),
    ],
)
def test_bad_input_gets_one_sentence(
    tmp_path: Path, options: list[str], identifier: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path / "own", *options) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"[{identifier}]" in line
    assert not (tmp_path / "own").exists()


def test_a_folder_below_a_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert init(tmp_path / "file/own") == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "[init-folder-unwritable]" in line


def test_a_name_that_is_taken_meanwhile_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another process writes README.md between the look and the end."""
    link = os.link

    def late(source: Path, target: Path) -> None:
        if target.name == "README.md":
            target.write_text("theirs")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    assert init(tmp_path) == 1
    assert "[init-folder-unwritable]" in capsys.readouterr().err
    assert written(tmp_path) == {"README.md": "theirs"}


@pytest.mark.parametrize("name", SHARED)
def test_common_settings_equal_those_of_example(name: str) -> None:
    example = ROOT / "inventories/example/group_vars/all" / name
    assert (FILES / "group_vars/all" / name).read_text() == example.read_text()


def test_ansible_has_the_settings_of_a_checkout() -> None:
    def settings(path: Path) -> set[str]:
        lines = path.read_text().replace("$$", "$").splitlines()
        return {line for line in lines if re.match(r"(?!inventory )\w+ = ", line)}

    assert settings(FILES / "ansible.cfg") == settings(ROOT / "ansible.cfg")
