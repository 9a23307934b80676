#!/usr/bin/python
"""Ansible module: the host's part of the action host_software; it says what is lacking, and installs it."""

DOCUMENTATION = r"""
module: host_software
short_description: Install users, folders, packages and software for all services of a host
description:
  - The action plugin of this name runs on the control node and calls this module on the host. The module
    returns what the host C(lacks). The control node copies it to the host, and calls the module again.
author: The Aqueduct project (!UNKNOWN)
options:
  users:
    description: "Users of the services: C(name), C(home) and C(groups), further groups of the user."
    type: list
    elements: dict
    default: []
  folders:
    description: "Folders, parents first: C(path), C(owner), C(mode); C(group), if it is not the owner's;
      C(shared_by), a group that can read and change all files in the folder, whoever creates them. A link
      is followed only if root alone can have created it."
    type: list
    elements: dict
    default: []
  packages:
    description: Packages of the distribution; Ansible's own module installs them.
    type: list
    elements: str
    default: []
  archives:
    description: "Archives, each unpacked into its own folder: C(name), C(path)."
    type: list
    elements: dict
    default: []
  files:
    description: "Single files: C(name), C(path), C(mode) and C(sha256)."
    type: list
    elements: dict
    default: []
  environments:
    description:
      - "Python environments: C(name), C(path), C(wheels) (a name that changes with the packages), C(own) (the
        file name of Aqueduct's own wheel) and C(uv) (the installer: one of O(files))."
    type: list
    elements: dict
    default: []
  brought:
    description: "Files that the control node has copied to the host, by name: C(path) and C(sha256)."
    type: dict
    default: {}
"""

EXAMPLES = r"""
# A task passes the arguments of the action plugin.
- name: Collect the needs of the host's services
  aqueduct.estate.host_needs:
    roles: "{{ role_path | dirname }}"
  register: host

- name: Install users, folders and software of all services
  aqueduct.estate.host_software:
    needs: "{{ host.needs }}"
    repository: "{{ role_path | dirname | dirname }}"
    root: /opt/aqueduct
    cache: ~/.cache/aqueduct
    kafka_source: maven
    versitygw_source: go
"""

RETURN = r"""
lacks: {description: Names of files that the host still lacks., type: list, returned: success}
packages: {description: Packages that are not installed., type: list, returned: success}
python: {description: "Python version of the host, such as 3.11.", type: str, returned: success}
"""

import grp
import hashlib
import os
import pwd
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import IO, Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils import safe_files

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
COMPLETE = "complete"  # an empty file: what was unpacked, was unpacked to its end
WHEELS = "wheels"  # names the packages that an environment has
FORMER_NAME = "aqueduct"  # of our own package; both names would stay, with the files of both
# Access control lists as Linux keeps them (linux/posix_acl_xattr.h).
ACL_DEFAULT = "system.posix_acl_default"
ACL_VERSION = 2
NOBODY = 0xFFFFFFFF
USER_OBJ = 0x01
GROUP_OBJ = 0x04
GROUP = 0x08
MASK = 0x10
OTHER = 0x20
# A service may not write into its environment, and would compile at each start what no compiled file is of.
# Importing what the program imports compiles that; all that its packages have takes several times as long.
# What can't be imported is left, most of it because only other environments have its packages.
COMPILE = """
import contextlib, importlib, pkgutil, aqueduct
late = ["boto3", "pyspark.worker", "yaml"]  # imported within functions
own = (each.name for each in pkgutil.walk_packages(aqueduct.__path__, "aqueduct."))
for name in (*late, *own):
    if not name.endswith(".__main__"):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
"""
OWN = "own"  # the name under which Aqueduct's own wheel is brought


class Host:
    """The host as it is and as it is to be."""

    def __init__(self, module: Any) -> None:
        self.module, self.check, self.brought = module, module.check_mode, module.params["brought"]
        self.lacks: list[str] = []
        self.changed: list[str] = []

    def user(self, name: str, home: str, groups: list[str]) -> None:
        """Make sure of a user that nobody can log in as, and of groups that it shares with others."""
        try:
            pwd.getpwnam(name)
        except KeyError:
            self._change(f"user {name}")
            group = [f"--gid={name}"] if _has_group(name) else ["--user-group"]
            options = ["--system", f"--home-dir={home}", "--no-create-home", "--shell=/usr/sbin/nologin"]
            self._run(["useradd", *options, *group, name])
        for shared in groups:
            if not _has_group(shared):
                self._change(f"group {shared}")
                self._run(["groupadd", "--system", shared])
            if not _is_member(name, shared):
                self._change(f"user {name}")
                self._run(["usermod", "--append", f"--groups={shared}", name])

    def folder(self, path: str, owner: str, mode: str, shared_by: str | None, group: str | None) -> None:
        """Make sure of a folder; one that doesn't exist is made with its parents, which are root's."""
        try:
            with safe_files.folder(path, make=not self.check) as folder:
                self._access(folder, None, owner, shared_by or group or owner, int(mode, 8))
                if shared_by and not self.check:
                    self._share(folder, grp.getgrnam(shared_by).gr_gid)
        except FileNotFoundError:
            if not self.check:
                raise
            self._change(path)

    def archive(self, name: str, path: str) -> None:
        """Unpack an archive into a folder."""
        if (Path(path) / COMPLETE).exists():
            return
        if archive := self._take(name):
            folder = Path(path)
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._unpack(Path(archive), folder)
            (folder / COMPLETE).touch()

    def file(self, name: str, path: str, mode: str, sha256: str) -> None:
        """Make sure of one file."""
        target = Path(path)
        if not self._has_file(target, mode, sha256) and (brought := self._take(name)):
            with safe_files.folder(target.parent, make=True) as folder:
                access = safe_files.Access(os.geteuid(), os.getegid(), int(mode, 8))
                folder.write(target.name, Path(brought).read_bytes(), access)

    def _has_file(self, target: Path, mode: str, sha256: str) -> bool:
        """Return whether a file is there, and see to its access."""
        try:
            with safe_files.folder(target.parent) as folder:
                with folder.open(target.name) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
                    if _digest(file) != sha256:
                        return False
                self._access(folder, target.name, "root", "root", int(mode, 8))
                return True
        except FileNotFoundError:
            return False

    def environment(self, name: str, path: str, wheels: str, own: str, uv: str) -> None:
        """Make sure of a Python environment with exactly these packages, and Aqueduct among them."""
        root, marker = Path(path), Path(path) / WHEELS
        wheels = f"{wheels} for Python {PYTHON}"
        new = not marker.exists() or marker.read_text() != wheels
        distribution = own.replace("-py3-none-any.whl", ".dist-info")
        if not new and any(root.glob(f"lib/python3.*/site-packages/{distribution}/RECORD")):
            return
        house = self._take(name) if new else ""
        wheel = self._take(OWN)
        if not wheel or (new and not house):
            return
        if new:
            root.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=root.parent) as unpacked:
                self._unpack(Path(house), Path(unpacked))
                if not (root / "bin/python").exists():
                    self._run([sys.executable, "-m", "venv", "--without-pip", path])
                options = [f"--requirement={unpacked}/requirements.txt", f"--find-links={unpacked}"]
                self._install(root, uv, f"--cache-dir={unpacked}/cache", "--require-hashes", *options)
        if any(root.glob(f"lib/python3.*/site-packages/{FORMER_NAME}-*.dist-info")):
            self._run([uv, "pip", "uninstall", "--quiet", f"--python={root}/bin/python", FORMER_NAME])
        self._install(root, uv, "--no-cache", wheel)
        (root / ".lock").unlink(missing_ok=True)  # uv leaves it, writable for everyone
        self._run([f"{root}/bin/python", "-I", "-c", COMPILE])
        marker.write_text(wheels)

    def _install(self, root: Path, uv: str, *arguments: str) -> None:
        install = [uv, "pip", "install", "--quiet", f"--python={root}/bin/python", "--offline"]
        self._run([*install, "--no-config", "--no-index", "--no-deps", *arguments])

    def _take(self, name: str) -> str:
        """Return where something was brought to; empty if it is lacking."""
        if name in self.brought:
            path, sent = self.brought[name]["path"], self.brought[name]["sha256"]
            if (digest := _sha256(Path(path))) != sent:
                self.module.fail_json(
                    msg="[artifact-digest-mismatch] "
                    f"{Path(path).name} has SHA-256 {digest} on this host, but {sent} on the control node. "
                    "It was not installed. Run the playbook again. If it happens again, find out who changed "
                    "the file."
                )
            return str(path)
        if name not in self.lacks:
            self.lacks.append(name)
        self._change(name)
        return ""

    def _change(self, name: str) -> None:
        if name not in self.changed:
            self.changed.append(name)

    def _access(self, folder: safe_files.Folder, name: str | None, owner: str, group: str, mode: int) -> None:
        """Give a folder, or a file in it, its owner, group and mode."""
        path = folder.path / (name or "")
        ids = _ids(owner, group)
        if not ids:  # in check mode, on a fresh host
            if not self.check:
                self.module.fail_json(
                    msg="[host-user-missing] "
                    f"{path} must belong to {owner}:{group}, but this host has no such user or group. "
                    "Run playbooks/hosts.yml without --tags."
                )
            return
        access = safe_files.Access(*ids, mode)
        give = folder.give if name is None else partial(folder.give_file, name)
        if give(access, dry=self.check):
            self._change(str(path))

    def _share(self, folder: safe_files.Folder, group: int) -> None:
        """Set a default ACL: the group, and no other user, can read and write all new files.

        The setgid bit would do the same. However, a program that keeps this bit when it changes the mode of a
        folder fails under RestrictSUIDSGID=.
        """
        entries = [
            (USER_OBJ, 7, NOBODY),
            (GROUP_OBJ, 0, NOBODY),
            (GROUP, 7, group),
            (MASK, 7, NOBODY),
            (OTHER, 0, NOBODY),
        ]
        acl = struct.pack("<I", ACL_VERSION) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
        try:
            present_acl = os.getxattr(folder.descriptor, ACL_DEFAULT)
        except OSError:
            present_acl = b""
        if present_acl != acl:
            self._change(f"{folder.path}, shared")
            try:
                os.setxattr(folder.descriptor, ACL_DEFAULT, acl)
            except OSError as error:
                self.module.fail_json(
                    msg="[file-system-without-acls] "
                    f"Cannot set a default ACL for a group on {folder.path}: {error}. Its file system must "
                    "support ACLs. Use one that does, or mount it with ACLs."
                )

    def _unpack(self, archive: Path, folder: Path) -> None:
        try:
            _unpack(archive, folder)
        except ValueError as error:
            self.module.fail_json(msg=f"[artifact-archive-refused] {error}")

    def _run(self, command: list[str]) -> None:
        if not self.check:
            process = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
            if process.returncode:
                output = (process.stderr.strip() or process.stdout.strip()).splitlines()
                sentence = f"{' '.join(command[:4])} failed: {' '.join(output[-3:])}"
                self.module.fail_json(msg=f"[host-command-failed] {sentence}")


def _ids(owner: str, group: str) -> tuple[int, int] | None:
    try:
        return pwd.getpwnam(owner).pw_uid, grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def _has_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def _is_member(user: str, group: str) -> bool:
    try:
        return user in grp.getgrnam(group).gr_mem
    except KeyError:  # in check mode
        return False


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive as root's files, whoever packed them; nothing of one that leads out of the folder."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            names = [os.path.normpath(name) for name in packed.namelist()]
        if twice := next((name for name, times in Counter(names).items() if times > 1), ""):
            raise ValueError(_not_unpacked(archive, f"{twice} is there twice"))
        shutil.unpack_archive(
            archive, folder
        )  # skips paths outside the folder; supports neither links nor modes
        return
    with tarfile.open(archive) as packed:
        members = packed.getmembers()
        if reason := next(filter(None, (_fault(member) for member in members)), "") or _double(members):
            raise ValueError(_not_unpacked(archive, reason))
        for member in members:
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            member.mode &= 0o755
            member.pax_headers = {}
        packed.extractall(folder, members)  # noqa: S202  # its digest was checked, and its names just now


def _not_unpacked(archive: Path, reason: str) -> str:
    return f"{archive.name}: {reason}. The archive was not unpacked. Find out who created it."


def _fault(member: tarfile.TarInfo) -> str:
    """Return why an entry of an archive must not be unpacked; empty if it may be."""
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return f"{member.name} is not a file, a directory or a link"
    paths = [member.name]
    if member.issym():
        paths += [member.linkname, os.path.join(os.path.dirname(member.name), member.linkname)]  # noqa: PTH118, PTH120
    elif member.islnk():
        paths += [member.linkname]
    if any(os.path.isabs(path) for path in paths) or any(  # noqa: PTH117
        os.path.normpath(path).split("/")[0] == ".." for path in {paths[0], paths[-1]}
    ):
        return f"{member.name} points outside the folder of the archive"
    return ""


def _double(members: list[tarfile.TarInfo]) -> str:
    """Return which entry is another one's, or below one that is no folder; empty if none is."""
    kinds: dict[str, bool] = {}
    for member in members:
        name = os.path.normpath(member.name)
        if name in kinds and not (kinds[name] and member.isdir()):
            return f"{member.name} exists twice"
        kinds[name] = member.isdir()
    for name in kinds:
        if any(not kinds.get(str(parent), True) for parent in Path(name).parents):
            return f"{name} is below a link or a file"
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return _digest(file)


def _digest(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _missing(packages: list[str]) -> list[str]:
    if not packages:
        return []
    show = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *packages]
    lines = subprocess.run(show, capture_output=True, text=True, check=False).stdout.split("\n")  # noqa: S603
    installed = {line.split()[0] for line in lines if line.endswith(" installed")}
    return [package for package in packages if package not in installed]


def main() -> None:
    """Run the module."""
    lists = ("users", "folders", "archives", "files", "environments")
    module = AnsibleModule(
        argument_spec={
            **{name: {"type": "list", "elements": "dict", "default": []} for name in lists},
            "packages": {"type": "list", "elements": "str", "default": []},
            "brought": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    if not shutil.which("dpkg-query"):
        module.fail_json(
            msg="[distribution-unsupported] This host has no dpkg-query, and Aqueduct installs packages with "
            "apt. Use a host with Debian 12 or 13. Nothing was changed on this host."
        )
    host, given = Host(module), module.params
    packages = _missing(given["packages"])
    for user in given["users"]:
        host.user(**user)
    try:
        for folder in given["folders"]:
            host.folder(**{"group": None, **folder})
    except safe_files.UnsafePath as error:
        module.fail_json(msg=f"[path-unsafe] {error}")
    for archive in given["archives"]:
        host.archive(**archive)
    try:
        for file in given["files"]:
            host.file(**file)
    except safe_files.UnsafePath as error:
        module.fail_json(msg=f"[path-unsafe] {error}")
    # They are made with what packages bring.
    for environment in () if packages else given["environments"]:
        host.environment(**environment)
    module.exit_json(
        changed=bool(host.changed),
        did=host.changed,
        lacks=host.lacks,
        packages=packages,
        python=PYTHON,
    )


if __name__ == "__main__":
    main()
