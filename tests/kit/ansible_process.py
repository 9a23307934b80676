"""Playbooks of this checkout, run as `ansible-playbook` runs them, without importing Ansible anew for each.

A process that has imported Ansible forks for every run. The import takes most of the time of short playbooks.
"""

import atexit
import gc
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from subprocess import CompletedProcess

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "ANSIBLE_NOCOLOR": "1",
    "PYTHONPATH": str(ROOT),
    "ANSIBLE_ACTION_PLUGINS": str(Path(__file__).parent / "action_plugins"),  # actions of tests alone
}

WAITING = """
- hosts: localhost
  gather_facts: false
  connection: local
  tasks:
    - name: Wait for the file
      ansible.builtin.shell: echo >> {folder}/attempts; test $(wc -l < {folder}/attempts) -ge 3
      register: attempt
      until: attempt is succeeded
      retries: 5
      delay: 0
    - name: Continue
      ansible.builtin.debug: {{msg: it is there}}
      tags: [later]
"""


def waiting_playbook(folder: Path) -> Path:
    """Write a playbook whose task succeeds at its third attempt. Each attempt adds a line to `attempts`."""
    playbook = folder / "waiting.yml"
    playbook.write_text(WAITING.format(folder=folder))
    return playbook


def play(*arguments: str | Path, **environment: str) -> CompletedProcess[str]:
    """Run `ansible-playbook` with these arguments, in the root of the repository and without colours.

    Ansible reads its settings when it is imported, so a run with settings of its own needs a new process.
    """
    argv = [str(Path(sys.executable).parent / "ansible-playbook"), *map(str, arguments)]
    given = {**os.environ, **PLAIN, **environment}
    if any(name.startswith("ANSIBLE_") for name in environment):
        return subprocess.run(argv, cwd=ROOT, env=given, capture_output=True, text=True, check=False)
    return _forked(argv, given, {})


def play_again(*arguments: str | Path, **environment: str) -> CompletedProcess[str]:
    """Run it as `play` does. All runs with the same environment share a process that has imported Ansible."""
    argv = [str(Path(sys.executable).parent / "ansible-playbook"), *map(str, arguments)]
    return _forked(argv, {**os.environ, **PLAIN, **environment}, environment)


def _forked(argv: list[str], given: dict[str, str], imported: dict[str, str]) -> CompletedProcess[str]:
    """Run it in a fork of the process that has imported Ansible with these variables."""
    with tempfile.TemporaryDirectory(prefix="play") as folder:
        out, err = (Path(folder, name) for name in ("out", "err"))
        asked = {"argv": argv, "environment": given, "out": str(out), "err": str(err)}
        ansible = _ansible(tuple(sorted(imported.items())))
        print(json.dumps(asked), file=ansible.stdin, flush=True)
        assert ansible.stdout is not None
        code = int(ansible.stdout.readline())
        return CompletedProcess(argv, code, out.read_text(), err.read_text())


def collections_with(folder: Path, path: str, content: str) -> Path:
    """Return a folder for `ANSIBLE_COLLECTIONS_PATH`: this checkout's collection with one changed file."""
    collections = folder / "collections"
    here, own = collections / "ansible_collections/aqueduct/estate", ROOT
    here.parent.mkdir(parents=True)
    for part in Path(path).parts:
        here.mkdir()
        for entry in own.iterdir():
            if entry.name != part:
                (here / entry.name).symlink_to(entry)
        here, own = here / part, own / part
    here.write_text(content)
    return collections


@cache
def _ansible(imported: tuple[tuple[str, str], ...]) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__]
    pipe, environment = subprocess.PIPE, os.environ | PLAIN | dict(imported)
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True)
    atexit.register(process.kill)
    return process


def _serve() -> None:
    """Run the requested playbooks one after the other, and send each exit code."""
    from ansible import constants
    from ansible.cli.playbook import PlaybookCLI

    _import_plugins()
    gc.freeze()  # or each fork would copy what it only reads
    for request in sys.stdin:
        child = os.fork()
        if not child:
            asked = json.loads(request)
            os.environ.clear()
            os.environ.update(asked["environment"])
            os.setsid()
            for number, path in ((0, os.devnull), (1, asked["out"]), (2, asked["err"])):
                os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), number)
            Path(constants.DEFAULT_LOCAL_TMP).mkdir(
                mode=0o700, exist_ok=True
            )  # the run before has removed it
            PlaybookCLI.cli_executor(asked["argv"])  # which exits
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _import_plugins() -> None:
    """Import the modules that each run imports: Ansible's plugins, and modules that our plugins need."""
    from ansible.plugins import loader as plugin_loader

    kinds = ("action", "callback", "connection", "filter", "inventory", "strategy", "test", "vars")
    for kind in kinds:
        package = import_module(f"ansible.plugins.{kind}")
        for found in iter_modules(package.__path__, f"{package.__name__}."):
            import_module(found.name)
    # The settings of a plugin are in its documentation, which each run would parse. Of plugins of variables,
    # Ansible keeps the classes that it loads here in the place of their objects.
    for kind in ("become", "cache", "callback", "connection", "inventory", "shell", "strategy"):
        list(getattr(plugin_loader, f"{kind}_loader").all(class_only=True))
    sys.path.append(str(ROOT / "collections"))
    for path in (path for kind in kinds for path in ROOT.glob(f"plugins/{kind}/*.py")):
        spec = spec_from_file_location(f"ours_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(module_from_spec(spec))
    # Each run has Ansible's own loader of collections.
    sys.path.remove(str(ROOT / "collections"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "ansible_collections"]:
        del sys.modules[name]


if __name__ == "__main__":
    _serve()
