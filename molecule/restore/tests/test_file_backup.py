"""A host backs up the configuration and keys of another host, to which it has only read access."""

import json

import pytest
from estate import SITE, STORE, Estate
from lab import wait_until
from loss import Outcome

FOLDER, BACKUPS, OWN = "/etc/aqueduct/kafka", "/var/lib/file_backup", "/etc/aqueduct/file_backup/pro1-kafka"
USER = "aqueduct-files"
UNIT = "file_backup@pro1-kafka.service"
# What is in a folder, as programs tell it that have nothing to do with the backup.
ALL = r"find . -printf '%P %y %m %U:%G %T@ %l\n' | sort"
TRUTH = f"cd {{}} && {ALL} && find . -type f -print0 | sort -z | xargs -0 sha256sum"
AQUEDUCT = ("/opt/aqueduct/base/bin/aqueduct", "files")


def truth(estate: Estate, host: str, folder: str) -> str:
    return str(estate.lab.run(host, "bash", "-c", TRUTH.format(folder)).stdout)


def dates(estate: Estate) -> list[str]:
    said = estate.lab.run(STORE, *AQUEDUCT, "list", f"--backups={BACKUPS}", "--json").stdout
    return [each["date"] for each in json.loads(said)]


def back_up(estate: Estate) -> str:
    """Have the unit work, as its timer does; its name."""
    before = dates(estate) if estate.lab.run(STORE, "ls", BACKUPS).stdout.strip() else []
    estate.lab.run(STORE, "systemctl", "start", UNIT)

    def ended() -> bool:
        shown = estate.lab.run(STORE, "systemctl", "show", "--property=ActiveState", UNIT).stdout
        return "inactive" in shown or "failed" in shown

    wait_until("its end", ended)
    said = estate.lab.journal(STORE, f"--unit={UNIT}")
    [new] = [each for each in dates(estate) if each not in before] or pytest.fail(said)
    return new


def test_rebuilt_host_files_are_backed_up_and_restored(estate: Estate, outcome: Outcome) -> None:
    """The host has another key than before it was lost; site.yml has pinned that."""
    assert outcome.restore_said
    lab = estate.lab
    for timer in ("file_backup@pro1-kafka.timer", "file_backup_verify.timer"):
        assert lab.run(STORE, "systemctl", "is-active", timer).stdout.strip() == "active"
    was = truth(estate, SITE, FOLDER)
    assert "server.properties" in was
    assert "kafka-pro1.pem" in was
    first = back_up(estate)
    lab.run(SITE, "bash", "-c", f"echo '# by hand' > {FOLDER}/note")
    second = back_up(estate)
    assert first < second
    lab.run(SITE, "rm", f"{FOLDER}/note")
    restore = ("restore", f"--backups={BACKUPS}", "--name=pro1-kafka", f"--at={first}")
    lab.run(STORE, *AQUEDUCT, *restore, "--to=/var/tmp/restored")
    assert truth(estate, STORE, "/var/tmp/restored") == was
    lab.run(STORE, "rm", "-r", "/var/tmp/restored")
    lab.run(STORE, *AQUEDUCT, "verify", f"--backups={BACKUPS}")


def test_file_backup_key_can_read_only_one_folder(estate: Estate, outcome: Outcome) -> None:
    assert outcome.restore_said
    lab = estate.lab
    owner = lab.run(STORE, "stat", "--format=%U %a", f"{OWN}/key").stdout.strip()
    assert owner == f"{USER} 600"
    ssh = (
        "ssh",
        "-F",
        "none",
        "-i",
        f"{OWN}/key",
        "-o",
        f"UserKnownHostsFile={OWN}/known_hosts",
        "-o",
        "BatchMode=yes",
    )
    for command in ("id", "cat /etc/shadow"):
        done = lab.run(STORE, "runuser", "-u", USER, "--", *ssh, f"root@{SITE}", command, check=False)
        assert done.returncode == 1
        assert "does not run rsync" in done.stderr + done.stdout
    key = lab.run(STORE, "cat", f"{OWN}/key.pub").stdout.split()[1]
    keys = lab.run(SITE, "bash", "-c", "cat ~/.ssh/authorized_keys").stdout.splitlines()
    lines = [line for line in keys if key in line]
    assert [line.split(" ssh-ed25519")[0] for line in lines] == [f'command="rrsync -ro {FOLDER}",restrict']
    assert lab.run(SITE, "bash", "-c", "ls ~/.ssh").stdout.split() == ["authorized_keys"]
