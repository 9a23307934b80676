"""The module's traces in the host's log; tests/broker/test_connect.py has what it does."""

import json
import subprocess
import sys
from pathlib import Path

MODULE = Path(__file__).parents[2] / "plugins/modules/connect_connectors.py"
SYSLOG = """
from pathlib import Path
LOG_USER = LOG_INFO = 0
def openlog(*_): pass
def syslog(_, message): Path({log!r}).write_text(message)
"""


def test_nothing_of_a_configuration_is_logged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    (tmp_path / "syslog.py").write_text(SYSLOG.format(log=str(log)))
    config = {"connector.class": "X", "odd": "hush-1", "a.password": "hush-2", "url": "x://y:hush-3@z"}
    given = {"urls": ["none"], "connectors": [{"name": "a", "config": config}], "_ansible_no_log": False}

    def run(module: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", module],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": given}),
            env={"PYTHONPATH": f"{tmp_path}:{MODULE.parents[2]}"},
            capture_output=True,
            text=True,
        )

    run(MODULE.read_text().replace("module = Unlogged(", "module = AnsibleModule("))
    assert "hush-2" in log.read_text()  # so Ansible would log it, and there
    log.unlink()
    done = run(MODULE.read_text())
    assert json.loads(done.stdout)["msg"].startswith("[connect-url-invalid] 'none' ")
    assert "hush-2" not in done.stdout
    assert "hush-3" not in done.stdout
    assert not log.exists()
