"""The module host_facts: what it reads, and what it leaves alone."""

import contextlib
import http.server
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from kit.estate_facts import certificate
from kit.plugin_modules import load, run


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return load("host_facts")


@pytest.fixture
def port() -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"a_metric 1\n")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_host_answers_all_at_once(tmp_path: Path, port: int) -> None:
    (tmp_path / "drill.prom").write_text("b_metric 2\n")
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    began = time.time()
    facts = run(
        "host_facts",
        {
            "folders": [str(tmp_path), str(tmp_path / "none")],
            "metrics": {"service": port, "silent": 1},
            "files": {"drill": str(tmp_path / "drill.prom"), "absent": str(tmp_path / "absent")},
            "commands": {
                "good": [sys.executable, "-c", "print('[1]')"],
                "bad": [sys.executable, "-c", "import sys; sys.exit('no\\nwhy')"],
                "absent": ["/nowhere/program"],
                "slow": sleeper,
            },
            "seconds": 5,
        },
    )["facts"]
    assert facts["metrics"] == {"service": "a_metric 1\n", "drill": "b_metric 2\n"}
    assert facts["answers"]["good"] == {"code": 0, "output": "[1]\n", "error": ""}
    assert facts["answers"]["bad"]["code"] == 1
    assert facts["answers"]["bad"]["error"].endswith("why\n")
    assert facts["answers"]["absent"]["code"] is None
    assert facts["answers"]["slow"]["code"] is None
    [disk] = [disk for disk in facts["disks"] if disk["path"] == "/"]
    assert facts["unmeasured"] == [str(tmp_path / "none")]
    shown = subprocess.run(["df", "--output=pcent", "/"], capture_output=True, text=True, check=True).stdout
    used_percent = 100 * (1 - disk["free"] / disk["size"])
    assert abs(used_percent - int(shown.split()[-1].rstrip("%"))) <= 2
    assert began <= facts["time"] <= time.time()


@pytest.fixture
def slow_port() -> Iterator[int]:
    """Serve a page whose bytes come one by one, so that no read of the socket waits for long."""

    def serve() -> None:
        client, _ = listener.accept()
        with client, contextlib.suppress(OSError):
            client.recv(4096)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n")
            for _ in range(20):
                time.sleep(0.2)
                client.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def test_page_incomplete_after_timeout_is_discarded(module: ModuleType, slow_port: int) -> None:
    assert module.page(slow_port, 1) is None


def test_a_command_is_read_up_to_a_limit(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that goes on is not waited for."""
    monkeypatch.setattr(sys.modules[module.answer.__module__], "MOST", 1000)
    text = "import sys, time; print('x' * 2000, flush=True); time.sleep(60)"
    assert module.answer([sys.executable, "-c", text], 10) == {
        "code": None,
        "output": "",
        "error": "more than 1000 bytes",
    }


def test_of_errors_the_end_is_kept(module: ModuleType) -> None:
    text = "import sys; sys.stderr.write('x' * 3_000_000 + 'last'); sys.exit(3)"
    answer = module.answer([sys.executable, "-c", text], 30)
    assert (answer["code"], answer["output"]) == (3, "")
    assert answer["error"] == "x" * (sys.modules[module.answer.__module__].MOST_ERRORS - 4) + "last"


def test_silent_services_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Each of these commands ends only when all of them have begun."""
    number = 12
    wait = (
        "import pathlib, sys, time\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "(folder / sys.argv[2]).touch()\n"
        f"while len(list(folder.iterdir())) < {number}: time.sleep(0.05)\n"
    )
    commands = {str(each): [sys.executable, "-c", wait, str(tmp_path), str(each)] for each in range(number)}
    facts = run("host_facts", {"commands": commands, "seconds": 60})["facts"]
    assert {answer["code"] for answer in facts["answers"].values()} == {0}


def test_no_key_and_no_link_is_read(module: ModuleType, tmp_path: Path) -> None:
    pem = certificate(30)
    begin = "-----BEGIN PRIVATE " + "KEY-----"
    (tmp_path / "own.pem").write_text(f"{begin}\nsecret\n{begin}\n{pem}")
    (tmp_path / "elsewhere").write_text(pem)
    (tmp_path / "link.pem").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "other.pem").write_text("nothing")
    os.mkfifo(tmp_path / "pipe.pem")
    found = dict(module.certificates([f"{tmp_path}/*.pem"]))
    assert found == {str(tmp_path / "own.pem"): pem}
    assert module.text(str(tmp_path / "link.pem")) == "", "it is there, and not known"
    assert module.text(str(tmp_path / "none")) is None


def test_symlinks_in_path_folders_are_not_followed(module: ModuleType, tmp_path: Path) -> None:
    (own := tmp_path / "own").mkdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / "x.pem").write_text(certificate(30))
    for name in ("link", "other"):
        (own / name).symlink_to(elsewhere)
        os.chown(own / name, 1, 1, follow_symlinks=False)
    os.chown(own, 1, 1)
    assert dict(module.certificates([f"{own}/*/x.pem", f"{elsewhere}/*.pem"])).keys() == {
        f"{elsewhere}/x.pem"
    }
    assert module.text(str(own / "link/x.pem")) == ""
    assert module.disks([str(own / "link"), str(elsewhere)])[1] == [str(own / "link")]
    os.link(elsewhere / "x.pem", own / "hard.pem")
    assert module.text(str(own / "hard.pem")) == ""


@pytest.fixture
def process() -> Iterator[int]:
    """Start a process that has Kafka's classpath in its command line."""
    words = ["-c", "import time; time.sleep(600)", "/opt/aqueduct/kafka-4.3.1/libs/*"]
    with subprocess.Popen([sys.executable, *words]) as started:
        yield started.pid
        started.kill()


def test_units_have_a_state(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: int
) -> None:
    (tmp_path / "systemctl").write_text(
        "#!/bin/sh\n"
        '[ "$1" = list-units ] && { echo "x.service loaded failed failed X"; exit 0; }\n'
        "printf 'Id=a.service\\nLoadState=loaded\\nActiveState=failed\\nResult=exit-code\\n"
        f"MainPID={process}\\nStateChangeTimestamp=@1780000000\\nExecMainExitTimestamp=@1780000001\\n\\n'\n"
        "printf 'Id=b@c.service\\nLoadState=not-found\\nActiveState=inactive\\nResult=success\\n"
        "StateChangeTimestamp=\\nExecMainExitTimestamp=\\n'\n"
    )
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert module.unit_states(["a", "b@c"], 9) == {
        "a": {
            "state": "failed",
            "result": "exit-code",
            "changed": 1780000000.0,
            "ended": 1780000001.0,
            "version": "4.3.1",
        },
        "b@c": {"state": "not installed", "result": "success", "changed": 0.0, "ended": 0.0, "version": ""},
    }
    assert module.failed_units(9) == ["x.service"]


def test_without_systemd_the_units_are_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = run("host_facts", {"units": ["a"]})["facts"]
    assert facts["units"] == {}
    assert "failed_units" not in facts
