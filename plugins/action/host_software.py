"""Installs all software of a host's services; the module of this name runs on the host.

Asks the host what it lacks, fetches it to the control node, checks it against the locks, copies it to the
host, and asks again. Nothing is fetched for a host that lacks nothing.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from aqueduct.common.wording import printable
from aqueduct.control_node import artifacts, names
from aqueduct.errors import AqueductError, with_identifier

MODULE, APT = "aqueduct.estate.host_software", "ansible.builtin.apt"
OWN = "own"
# Several times as fast as pip, and checked with the control node's own environment (locks/controller.txt).
UV, UV_HERE = "uv", Path(sys.executable).with_name("uv")
TELL_SECONDS = 10
JAVA_17 = "openjdk-17-jre-headless"  # which Debian 13 does not have
ROUNDS = 3  # packages, then what environments are made with, then all is there


class ActionModule(ActionBase):
    """Arguments: `needs`, as host_needs returns them; and the variables of the role artifact without its
    name, with `repository` and `root`."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        text = {"type": "str", "required": True}
        _, given = self.validate_argument_spec(
            {
                "needs": {"type": "dict", "required": True},
                "repository": text,
                "root": text,
                "cache": {"type": "path", "required": True},
                "kafka_source": text,
                "kafka_archive_url": {"type": "str"},
                "kafka_archive_sha256": {"type": "str"},
                "versitygw_source": text,
                "versitygw_archive_url": {"type": "str"},
                "versitygw_archive_sha256": {"type": "str"},
            }
        )
        self._variables, self._given = task_vars or {}, given
        self._host, self._needs = str(self._variables["inventory_hostname"]), given["needs"]
        self._repository, self._root = Path(given["repository"]), given["root"]
        try:
            return self._have()
        except AqueductError as error:
            raise AnsibleActionFail(error.labelled) from error
        finally:
            if self._connection._shell.tmpdir:
                self._remove_tmp_path(self._connection._shell.tmpdir)

    def _have(self) -> dict[str, Any]:
        needed: dict[str, Any] = {name: self._needs[name] for name in ("users", "folders", "packages")}
        needed |= {"archives": [], "files": [], "environments": self._environments()}
        needed["archives"] += [
            {"name": f"{software}-{version}", "path": f"{self._root}/{software}-{version}"}
            for software in ("kafka", "hadoop")
            for version in self._needs[software]
        ]
        for file in self._needs["files"]:
            kind, declared_file = self._file(file)
            needed[kind].append(declared_file)
        needed["files"] += map(self._versitygw, self._needs["versitygw"])
        if needed["environments"]:
            needed["files"].append(_file_item(UV, self._uv, names.sha256_of(UV_HERE), "0755"))
        did: list[str] = []
        brought: dict[str, dict[str, str]] = {}
        for _ in range(ROUNDS):
            report = self._ask({**needed, "brought": brought})
            did += [change for change in report["did"] if change not in did] + report["packages"]
            if self._task.check_mode or not (report["lacks"] or report["packages"]):
                return {"changed": bool(did), "did": did}
            if report["packages"]:
                self._install(report["packages"])
            for name in report["lacks"]:
                brought[name] = self._bring(name, report["python"])
        raise AnsibleActionFail(
            "[host-software-incomplete] "
            f"{self._host} still lacks {', '.join(report['lacks'] + report['packages'])}. "
            "Run the playbook again."
        )

    def _file(self, file: dict[str, Any]) -> tuple[str, dict[str, str]]:
        """Describe a file that the host needs: a jar is copied, an archive unpacked."""
        of_file = {key: file[key] for key in ("maven", "url", "sha256")}
        name, sha256 = names.file_and_digest(**of_file, lock=self._files_lock)
        path = f"{file['folder']}/{names.host_folder(name, sha256)}"
        if name.endswith(".jar"):
            return "files", _file_item(name, f"{path}/{name}", sha256, "0644")
        return "archives", {"name": name, "path": path}

    @property
    def _files_lock(self) -> str:
        return str(self._repository / "artifacts/files.sha256")

    def _versitygw(self, version: str) -> dict[str, str]:
        name = f"versitygw-{version}"
        return _file_item(name, f"{self._root}/{name}/versitygw", self._fetch(name, "").sha256, "0755")

    @property
    def _uv(self) -> str:
        return f"{self._root}/uv/uv"

    def _environments(self) -> list[dict[str, str]]:
        own = names.own_wheel_name(str(self._repository))
        return [
            {
                "name": lock,
                "path": f"{self._root}/{lock}",
                "wheels": names.wheels_digest(self._lock(lock)),
                "own": own,
                "uv": self._uv,
            }
            for lock in self._needs["environments"]
        ]

    def _lock(self, name: str) -> str:
        return str(self._repository / f"locks/{name}.txt")

    def _ask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        with self._told(
            "unpacking and installing" if arguments["brought"] else "checking installed software"
        ):
            return self._module(MODULE, arguments)

    def _install(self, packages: list[str]) -> None:
        """Lists are fetched only where a package is not found: a fresh cloud image has none, and a host that
        has all packages need not reach a mirror."""
        with self._told(f"installing {', '.join(packages)}"):
            # Recommended packages would bring services of their own, which nobody asked for.
            wanted = {"name": packages, "install_recommends": False}
            try:
                self._module(APT, wanted)
            except AnsibleActionFail:
                try:
                    self._module(APT, {**wanted, "update_cache": True})
                except AnsibleActionFail as error:
                    if JAVA_17 in packages and "No package matching" in str(error):
                        raise AnsibleActionFail(
                            "[java-package-missing] "
                            f"The distribution of {self._host} has no package {JAVA_17}. HDFS, Hive's "
                            "metastore and the SQL server need Java 17. Move them to a host with Debian 12."
                        ) from error
                    raise

    def _bring(self, name: str, python: str) -> dict[str, str]:
        """Fetch a file to the control node and copy it to the host; return its path there, and its digest."""
        fetched = self._fetch(name, python)
        local = fetched.path
        folder = self._connection._shell.tmpdir or self._make_tmp_path()
        remote = self._connection._shell.join_path(folder, local.name)
        with self._told(f"copying {local.name} ({local.stat().st_size / 1e6:.0f} MB)"):
            self._transfer_file(str(local), remote)
        return {"path": str(remote), "sha256": fetched.sha256}

    def _fetch(self, name: str, python: str) -> artifacts.Artifact:
        given, cache = self._given, self._given["cache"]
        artifact = f"{self._repository}/artifacts"
        with self._told(f"fetching {name} to the control node"):
            if name.startswith("kafka-"):
                return artifacts.kafka_jars(
                    version=name.removeprefix("kafka-"),
                    source=given["kafka_source"],
                    archive_url=given["kafka_archive_url"],
                    archive_sha256=given["kafka_archive_sha256"],
                    lock=f"{artifact}/{name}.sha256",
                    cache=cache,
                )
            if name.startswith("hadoop-"):
                return artifacts.hadoop_jars(
                    version=name.removeprefix("hadoop-"), lock=f"{artifact}/{name}.sha256", cache=cache
                )
            if name.startswith("versitygw-"):
                return artifacts.versitygw(
                    version=name.removeprefix("versitygw-"),
                    source=given["versitygw_source"],
                    archive_url=given["versitygw_archive_url"],
                    archive_sha256=given["versitygw_archive_sha256"],
                    lock=f"{artifact}/{name}.sha256",
                    toolchain=f"{artifact}/go.txt",
                    cache=cache,
                )
            if name == UV:
                return artifacts.Artifact(UV_HERE, fetched=False, sha256=names.sha256_of(UV_HERE))
            if name == OWN:
                return artifacts.own_wheel(repository=str(self._repository), cache=cache)
            if name in self._needs["environments"]:
                return artifacts.wheelhouse(lock=self._lock(name), python=python, cache=cache)
            for file in self._needs["files"]:
                of_file = {key: file[key] for key in ("maven", "url", "sha256")}
                if names.file_and_digest(**of_file, lock=self._files_lock)[0] == name:
                    return artifacts.single_file(**of_file, lock=self._files_lock, cache=cache)
        raise AnsibleActionFail(f"[artifact-name-unknown] No role declares the file {name}.")

    def _module(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self._execute_module(
            module_name=name, module_args=arguments, task_vars=self._variables
        )
        if result.get("failed"):
            problem = result.get("msg") or result.get("module_stderr") or result.get("exception")
            raise AnsibleActionFail(with_identifier("host-module-failed", str(problem)))
        return result

    @contextmanager
    def _told(self, step: str) -> Iterator[None]:
        """Print the current step and its duration at intervals, until it ends."""
        over, started = threading.Event(), time.monotonic()

        def tell() -> None:
            while not over.wait(TELL_SECONDS):
                Display().display(f"{self._host}: {printable(step)}, for {time.monotonic() - started:.0f} s")

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()


def _file_item(name: str, path: str, sha256: str, mode: str) -> dict[str, str]:
    return {"name": name, "path": path, "sha256": sha256, "mode": mode}
