import os
import pickle
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from kit.identifiers import raises
from small_servers import Proxy, Script, serving

from aqueduct.common import job_files
from aqueduct.common.job_files import JobFiles
from aqueduct.errors import Failed, Refused
from aqueduct.store import backends as object_store
from aqueduct.store import retries
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.objects import Exists
from servers.object_store import ACCESS_KEY, REGION, SECRET_KEY, Gateway, running
from servers.pki import Authority


def ask(url: str = "s3://store") -> int | None:
    """Ask a store for the size of store.json, as every command does first."""
    return open_store(url).head("store.json")


def secrets_in(text: str) -> bool:
    return SECRET_KEY in text or ACCESS_KEY in text


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "RETRY_SECONDS", 0.5)


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: Gateway) -> Iterator[Gateway]:
    """Yield a second server, without TLS."""
    with running(tmp_path / "plain", None) as gateway:
        monkeypatch.setenv("AWS_ENDPOINT_URL", gateway.endpoint)
        yield gateway


# --- a task on another host ---

PROVEN = "s3://store/proven"


def elsewhere(files: JobFiles, **variables: str) -> str:
    """Have the files in a process that shares nothing with this one, and read there; return what it says."""
    program = (
        "import pickle, sys\n"
        "from aqueduct.store.backends import open_store\n"
        "files = pickle.load(sys.stdin.buffer)\n"
        "files.unpack(); files.unpack()\n"
        f"print(bytes(open_store('{PROVEN}').read('store.json')).decode())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(files),
        env={"AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent", **variables},
        capture_output=True,
    )
    return (done.stdout or done.stderr).decode().splitlines()[-1].removeprefix("aqueduct.errors.Failed: ")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what other tests' jobs would bring."""
    for known in ("_shared", "_proofs", "_named"):
        monkeypatch.setattr(job_files, known, type(getattr(job_files, known))())


@pytest.mark.usefixtures("driver")
def test_settings_of_aws_files_reach_spark_tasks(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gateway.authority
    home = tmp_path / "home/.aws"
    home.mkdir(parents=True)
    (home / "config").write_text(f"[default]\nregion = {REGION}\nendpoint_url = {gateway.endpoint}\n")
    (home / "credentials").write_text(
        f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    )
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.delenv("AWS_CONFIG_FILE")
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(gateway.authority.certificate))
    with job_files.packed() as files:
        assert not files.contents.keys() & {str(home / "config")}  # nobody asked for a store yet
    Catalog.open_or_make(open_store(PROVEN))
    with job_files.packed() as files:
        assert '"id"' in elsewhere(files)
        assert ACCESS_KEY not in repr(files)


@pytest.mark.usefixtures("driver")
def test_another_store_by_the_same_url_is_refused(s3: Gateway, tmp_path: Path) -> None:
    Catalog.open_or_make(open_store(PROVEN))
    with job_files.packed() as files, running(tmp_path / "other", None) as other:
        assert '"id"' in elsewhere(files)
        # As where neither the driver nor its configuration names an endpoint, and the host's own does.
        moved = replace(files, variables=files.variables | other.environment)
        assert elsewhere(moved).startswith(f"On {os.uname().nodename}, {PROVEN} has no store.json")
        said = f"On {os.uname().nodename}, {PROVEN} leads to another store"
        (other.bucket("store") / "proven").mkdir()
        (other.bucket("store") / "proven/store.json").write_bytes(b"{}")
        assert elsewhere(moved).startswith(said)


@pytest.mark.usefixtures("driver")
def test_store_failure_on_host_names_that_host(s3: Gateway) -> None:
    Catalog.open_or_make(open_store(PROVEN))
    with job_files.packed() as files:
        wrong = replace(files, variables=files.variables | {"AWS_SECRET_ACCESS_KEY": "wrong"})
        assert elsewhere(wrong).startswith(f"On {os.uname().nodename}: The store {PROVEN} rejects these")


# --- settings ---


def test_a_profile(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gateway.authority
    (tmp_path / "config").write_text(
        f"[profile backup]\nregion = {REGION}\nendpoint_url = {gateway.endpoint}\n"
    )
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id = x\naws_secret_access_key = x\n[backup]\n"
        f"aws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(gateway.authority.certificate))
    monkeypatch.setenv("AWS_PROFILE", "backup")
    assert ask() is None
    monkeypatch.setenv("AWS_PROFILE", "bakcup")
    with raises(Refused, "store-settings-invalid", "bakcup"):
        ask()


def test_no_credentials(s3: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with raises(Refused, "store-credentials-missing", "s3://store", "AWS_ACCESS_KEY_ID"):
        ask()


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_credentials(s3: Gateway, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "hidden")
    for action in (
        ask,
        lambda: open_store("s3://store").read("a"),
        lambda: open_store("s3://store").create("a", b""),
    ):
        with raises(Refused, "store-access-refused", "s3://store", "AWS_ACCESS_KEY_ID") as refusal:
            action()
        assert not secrets_in(str(refusal.value))
        assert "hidden" not in str(refusal.value)


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_a_region(s3: Gateway, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv(name, REGION)
    assert ask() is None
    monkeypatch.setenv(name, "us-west-2")
    with raises(Refused, "store-access-refused", "s3://store", "AWS_REGION"):
        ask()


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_a_private_ca(s3: Gateway, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert s3.authority
    monkeypatch.delenv("AWS_CA_BUNDLE")
    with raises(Refused, "store-access-refused", "s3://store", "UnknownIssuer", "AWS_CA_BUNDLE"):
        ask()
    monkeypatch.setenv(name, str(s3.authority.certificate))
    assert ask() is None


def test_a_ca_bundle_that_is_not_there(s3: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere/ca.pem")
    with raises(Refused, "store-settings-invalid", "AWS_CA_BUNDLE", "/nowhere/ca.pem"):
        ask()


def test_a_ca_bundle_that_is_none(s3: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(other.certificate))
    with raises(Refused, "store-access-refused", "s3://store", "AWS_CA_BUNDLE"):
        ask()


def test_a_proxy(s3: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy()
    with serving(proxy):
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_address[1]}")
        assert ask() is None
        through = proxy.connects
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert ask() is None
    assert proxy.connects == through >= 1


def test_without_tls_only_where_it_is_meant(plain: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(Refused, "store-access-refused", "without TLS", "AWS_ALLOW_HTTP=true"):
        ask()
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert ask() is None


@pytest.mark.usefixtures("impatient")
def test_tls_to_a_server_that_has_none(plain: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", plain.endpoint.replace("http", "https"))
    with raises(Refused, "store-access-refused", "s3://store", "TLS"):
        ask()


@pytest.mark.parametrize(
    "endpoint",
    [
        "localhost:9000",
        "nonsense",
        "http://",
        "http://localhost:99999",
        "http://localhost:0",
        "ftp://localhost",
        "http://localhost:x",
    ],
)
def test_an_endpoint_that_is_none(s3: Gateway, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with raises(Refused, "store-settings-invalid", "http[s]://HOST:PORT"):
        open_store("s3://store")


def test_a_bucket_with_a_typo(s3: Gateway) -> None:
    store = open_store("s3://stroe")
    for action in (
        lambda: store.read("a"),
        lambda: store.create("a", b""),
        lambda: store.head("a"),
        lambda: list(store.list("a")),
    ):
        with raises(Refused, "store-access-refused", "s3://stroe", "bucket"):
            action()


def test_read_only(tmp_path: Path, s3: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path / "ro", s3.authority, "--readonly") as gateway:
        monkeypatch.setenv("AWS_ENDPOINT_URL", gateway.endpoint)
        store = open_store("s3://store")
        with raises(Refused, "store-access-refused", "s3://store", "AccessDenied", "s3:PutObject"):
            store.create("a", b"")
        assert store.head("a") is None
        with raises(Failed, "store-access-refused", "s3://store", "AccessDenied", "s3:PutObject"):
            store.create("a", b"")


# --- servers that fail ---


@pytest.mark.usefixtures("impatient")
def test_a_dead_server(s3: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://127.0.0.1:1")
    with raises(Failed, "store-request-failed", "s3://store", "connection is refused"):
        ask()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://nowhere.invalid")
    with raises(Failed, "store-request-failed", "s3://store", "name"):
        ask()


@pytest.mark.usefixtures("impatient")
def test_a_server_that_says_nothing(s3: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "ANSWER_SECONDS", 1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://127.0.0.1:{silent.getsockname()[1]}")
        with raises(Failed, "store-request-failed", "s3://store", "no answer"):
            ask()


def test_dead_server_is_retried_for_about_a_minute() -> None:
    longest = retries.RETRY_SECONDS + object_store.ANSWER_SECONDS
    assert 60 < retries.RETRY_SECONDS < longest <= 100


def test_a_server_killed_and_back(s3: Gateway) -> None:
    """Kill the server while objects are written, listed and read: each is there once, whole."""
    store = open_store("s3://store/killed")
    content = {f"a/{number:03d}": bytes([number]) * 300_000 for number in range(60)}
    killed, worked, done = Event(), Event(), Event()

    def work() -> None:
        for number, (path, data) in enumerate(content.items()):
            store.create(path, data)
            worked.set()
            if number == 10:
                killed.wait()

    def disturb() -> int:
        times = 0
        while not done.is_set():
            s3.process.kill()
            killed.set()
            time.sleep(0.7)
            s3.process.start()
            times += 1
            worked.clear()
            done.wait(1)
            worked.wait()  # a slow machine does nothing in a second
        return times

    def read(path: str) -> bytes:
        content = b"".join(store.stream(path, 65_536))
        worked.set()
        return content

    with ThreadPoolExecutor(2) as pool:
        working, disturbing = pool.submit(work), pool.submit(disturb)
        try:
            working.result(timeout=600)
            found = {each.path: read(each.path) for each in store.list("a")}
        finally:
            done.set()
            killed.set()
            worked.set()
        assert disturbing.result(timeout=600) >= 1
    assert found == content


def test_a_stream_that_breaks_goes_on(s3: Gateway) -> None:
    content = bytes(range(256)) * (64 << 10)  # more than the connection's buffers hold
    store = open_store("s3://store/stream")
    store.create("a", content)
    chunks = store.stream("a", 1 << 16)
    first = next(chunks)
    s3.process.kill()
    s3.process.start()
    assert b"".join([first, *chunks]) == content


@pytest.fixture
def scripted(s3: Gateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    server = Script()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with serving(server):
        yield server


def test_a_lost_answer_is_no_loss(scripted: Script) -> None:
    scripted.answers = [None]
    open_store("s3://store").create("a", b"mine")
    assert [each.split()[0] for each in scripted.requests] == ["PUT", "PUT", "GET"]
    assert scripted.objects == {"/store/a": b"mine"}


def test_a_lost_answer_to_the_loser(scripted: Script) -> None:
    scripted.objects["/store/a"] = b"other"
    scripted.answers = [None]
    with pytest.raises(Exists):
        open_store("s3://store").create("a", b"mine")


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_busy_server_is_asked_again(scripted: Script, status: int) -> None:
    busy = status, "<Error><Code>SlowDown</Code><Message>slow</Message></Error>"
    scripted.answers = [busy, busy]
    open_store("s3://store").create("a", b"mine")
    assert len(scripted.requests) == 3


def test_a_server_without_room(scripted: Script) -> None:
    scripted.answers = [(507, "<Error><Code>InsufficientStorage</Code></Error>")]
    with raises(Failed, "store-request-failed", "s3://store", "no free space"):
        open_store("s3://store").create("a", b"mine")


def test_clock_skew(scripted: Script) -> None:
    skewed = "<Error><Code>RequestTimeTooSkewed</Code><Message>skew</Message></Error>"
    scripted.answers = [(403, skewed)]
    with raises(Refused, "store-access-refused", "s3://store", "clocks", "NTP"):
        open_store("s3://store").create("a", b"mine")


def test_gateway_certificate_is_untrusted_by_default(gateway: Gateway) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        ssl.get_server_certificate(
            ("127.0.0.1", gateway.port), ca_certs=ssl.get_default_verify_paths().cafile
        )
