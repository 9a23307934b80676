"""playbooks/resend.yml at the sending side: which bundles it sends, and over which links."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from kit import ansible_process

LINK = {"source": "pro1", "address": "10.0.0.2"}
INVENTORY = {
    "site_pro1": {"hosts": {"pro1-kafka-1": {"kafka_node_id": 1}, "pro1-diode-1": {}}},
    "site_enclave": {
        "hosts": {"enclave-kafka-1": {"kafka_node_id": 1}},
        "vars": {
            "diode_downstream_links": [
                LINK | {"number": 1, "topics": ["flights"]},
                LINK | {"number": 2, "topics": ["crews"], "name": "crews"},
                LINK | {"number": 3, "topics": ["plain"], "name": "plain", "mode": "record"},
            ]
        },
    },
    "kafka": {"hosts": {"pro1-kafka-1": {}, "enclave-kafka-1": {}}},
    "diode_upstream": {"hosts": {"pro1-diode-1": {}}},
    "diode_downstream": {"hosts": {"enclave-kafka-1": {}}},
}
# In place of the tasks that send: the link over which they would.
SENT = '- ansible.builtin.debug: {msg: "over=<{{ _diode_upstream_link.sent_as }}>"}\n'
GONE = SENT + "- ansible.builtin.set_fact: {_diode_upstream_gone: [flights-0 is gone]}\n"

Resend = Callable[..., CompletedProcess[str]]


@pytest.fixture
def resend(tmp_path: Path) -> Resend:
    """Return a function that runs the playbook with a bundle of partition 0 of topics; None: no bundle."""
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"children": INVENTORY}}))

    def run(topics: list[str] | None, *options: str, tasks: str = SENT) -> CompletedProcess[str]:
        if topics is not None:
            results = [{"topic": topic, "partition": 0, "gaps": [[5, 9]]} for topic in topics]
            (tmp_path / "reports").mkdir()
            bundle = tmp_path / "reports/bundle-pro1-enclave.json"
            bundle.write_text(json.dumps({"type": "all", "results": results}))
        path = "roles/diode_upstream/tasks/resend.yml"
        return ansible_process.play(
            "playbooks/resend.yml",
            f"--inventory={tmp_path / 'hosts.yml'}",
            "--limit=site_pro1",
            *options,
            ANSIBLE_COLLECTIONS_PATH=str(ansible_process.collections_with(tmp_path, path, tasks)),
        )

    return run


def facts(run: CompletedProcess[str]) -> tuple[int, list[str], list[str]]:
    """Return the exit code, the links over which the playbook sent, and the identifiers of its failures."""
    text = " ".join(run.stdout.split())
    failures = "".join(re.findall(r"(?:fatal|FAILED).*", text))
    return (
        run.returncode,
        re.findall(r"over=<(\S+)>", text),
        re.findall(r"\[([a-z]+(?:-[a-z]+)+)\] ", failures),
    )


@pytest.mark.parametrize(("topics", "links"), [(["crews"], ["enclave-crews"]), ([], [])])
def test_bundle_is_sent_over_links_of_its_topics(topics: list[str], links: list[str], resend: Resend) -> None:
    assert facts(resend(topics)) == (0, links, [])


def test_offsets_that_no_link_sends_fail_playbook(resend: Resend) -> None:
    run = resend(["crews", "radar"])
    assert facts(run) == (2, ["enclave-crews"], ["bundle-partition-uncovered"])
    assert "radar-0" in run.stdout


def test_gone_records_do_not_hide_unsent_partitions(resend: Resend) -> None:
    run = resend(["flights", "radar"], tasks=GONE)
    assert facts(run) == (2, ["enclave-pro1"], ["resend-records-gone", "bundle-partition-uncovered"])


def test_playbook_without_bundle_fails(resend: Resend, tmp_path: Path) -> None:
    run = resend(None)
    assert facts(run) == (2, [], ["bundle-missing"])
    assert str(tmp_path / "reports/bundle-pro1-enclave.json") in "".join(run.stdout.split())
    assert "undefined" not in run.stdout


def test_check_mode_needs_no_bundle(resend: Resend) -> None:
    assert facts(resend(None, "--check")) == (0, [], [])
