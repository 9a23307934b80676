"""A stopped broker's logs that it set aside are logs again, in whichever of its folders they are."""

import re
from pathlib import Path

from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.recovery.broker_ids.stray_logs import restore_logs


def test_logs_are_taken_back_once(tmp_path: Path) -> None:
    """An empty log gives its place; one with records stays, and what was set aside is named."""
    meta = tmp_path / "meta.properties"
    meta.write_text("version=1\ndirectory.id=abc\nnode.id=12\ncluster.id=C\n")
    meta.chmod(0o640)
    aside = "0123456789abcdef" * 2 + "-stray"
    for name in (f"a-0.{aside}", f"b-0.{aside}", f"c-0.{aside}", "b-0", "c-0"):
        (tmp_path / name).mkdir()
    for name in ("mine", f"{0:020}.log", f"{0:020}.index", f"{0:020}.timeindex"):
        (tmp_path / f"b-0.{aside}/{name}").touch()
    (tmp_path / "b-0" / f"{0:020}.log").touch()
    (tmp_path / "c-0" / f"{0:020}.log").write_bytes(b"records")
    [done] = restore_logs([tmp_path], 2)
    assert (done.before, done.now) == (12, 2)
    assert (sorted(done.logs), done.emptied) == (["a-0", "b-0"], ["b-0"])
    mine = f"{tmp_path}/c-0 exists, with 7 bytes, up to offset 0"
    assert done.left == [(f"c-0.{aside}", mine)]
    assert sorted(each.name for each in (tmp_path / "b-0").iterdir()) == [f"{0:020}.log", "mine"]
    assert meta.read_text() == "version=1\nnode.id=2\ncluster.id=C\n"
    assert meta.stat().st_mode & 0o777 == 0o640
    [again] = restore_logs([tmp_path], 2)
    assert (again.before, again.logs) == (2, [])


def data_folder(path: Path, logs: dict[str, int], node_id: int = 3) -> Path:
    """Make one with empty logs, each with the offset at which it ends."""
    path.mkdir()
    for name, end in logs.items():
        (path / name).mkdir()
        (path / name / f"{end:020}.log").touch()
    (path / "meta.properties").write_text(f"version=1\ncluster.id=C\nnode.id={node_id}\n")
    return path


def folders_of(path: Path) -> set[str]:
    return {re.sub(r"\.[0-9a-f]{32}", "", each.name) for each in path.iterdir() if each.is_dir()}


def test_stray_log_returns_in_one_folder_per_broker(tmp_path: Path) -> None:
    """Else the broker would find it in two of them, and not start."""
    aside, later = ("0" * 31 + f"{number}-stray" for number in range(2))
    one = data_folder(tmp_path / "one", {f"a-0.{aside}": 40, f"b-0.{aside}": 7, "c-0": 0})
    two = data_folder(tmp_path / "two", {"a-0": 0, f"b-0.{aside}": 9, f"b-0.{later}": 8, f"c-0.{aside}": 5})
    first, second = restore_logs([one, two, tmp_path / "two/../one"], None)
    assert (first.logs, first.emptied) == (["a-0"], ["c-0"])
    assert (sorted(second.logs), second.emptied) == (["b-0", "c-0"], ["a-0"])
    furthest = f"{two}/b-0.{aside} is at least as long"
    assert first.left == [(f"b-0.{aside}", furthest)]
    assert second.left == [(f"b-0.{later}", furthest)]
    assert folders_of(one) == {"a-0", "b-0-stray", "c-0-delete"}
    assert folders_of(two) == {"a-0-delete", "b-0", "b-0-stray", "c-0"}


def test_folders_of_several_brokers_are_refused(tmp_path: Path) -> None:
    one, other = data_folder(tmp_path / "one", {"a-0": 0}, 1), data_folder(tmp_path / "other", {}, 2)
    with raises(Refused, "data-folders-mixed") as refused:
        restore_logs([one, other], 3)
    assert "one of broker 1, C" in str(refused.value)
    assert "node.id=1\n" in (one / "meta.properties").read_text()
    restore_logs([one, other], 2)  # as a run that was cut short has left them
