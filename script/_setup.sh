# Sourced by the other scripts. Installs the software that a new Debian 12 or Ubuntu machine lacks, and prints each step.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export AQUEDUCT_CACHE="${AQUEDUCT_CACHE:-$HOME/.cache/aqueduct}"
export ANSIBLE_CONFIG="$root/ansible.cfg" PATH="$root/.venv/bin:$PATH"
# Images of build machines set this. Each Python process would then compile all imported modules again.
unset PYTHONDONTWRITEBYTECODE

say() { printf '\n==> [%3ds] %s\n' "$SECONDS" "$*"; }

# Print what failed and the remedy. Exit code 2: nothing was done. Exit code 1: the script failed.
refuse() {
    printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 2
}
fail() {
    printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}
no_arguments() { [[ $# -eq 0 ]] || refuse "the script has no argument $1. Run it with --help."; }

exec 8>&2 # the original stderr, because a command's output may be redirected when it is interrupted
on_interrupt() {
    printf '\n%s: interrupted. Nothing is damaged. Run the script again to resume, or remove the lab with script/lab-down.\n' \
        "$(basename "$0")" >&8
    trap - EXIT
    exit 130
}
trap on_interrupt INT

# tell_memory MEBIBYTES: print a warning if this machine has less memory. It may have swap, so nothing is refused.
tell_memory() {
    local has
    has=$(awk '/^MemTotal:/ {print int($2 / 1024)}' /proc/meminfo)
    ((has >= $1)) ||
        say "This machine has $has MiB of memory, but this script uses up to $1 MiB: the kernel may kill processes"
}

# at_most NUMBER MEBIBYTES: how many processes of that size can run at once, at most NUMBER.
at_most() {
    awk -v most="$1" -v size="$2" '/^MemAvailable:/ {fit = int($2 / 1024 / size); print fit < 1 ? 1 : fit < most ? fit : most}' /proc/meminfo
}

# help FILE: print the comment at the top of a script.
help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$1"; }

# Run a playbook and show only its progress, and its errors if it fails.
quietly() {
    local output
    output=$(mktemp)
    if ! "$@" 2>&1 | tee "$output" | progress; then
        # From the first error to the end, without the recap.
        sed -n '/^\(\[ERROR\]\|fatal:\)/,/^PLAY RECAP/{/^PLAY RECAP/d;p}' "$output" >&2
        fail "'$*' failed; the reason is above, and the whole output is in $output. Correct the cause, and run this script again."
    fi
    rm -f "$output"
}

# Filter the output of ansible-playbook: plays with hosts, the waits of our modules, and the number of changes. After 15 seconds
# without output, print the current task and its duration.
progress() {
    local line play="" task="" since=$SECONDS status
    while :; do
        status=0
        IFS= read -r -t 15 line || status=$?
        if ((status > 128)); then
            printf '      %s, for %d s\n' "$task" $((SECONDS - since))
            continue
        fi
        ((status == 0)) || break
        case "$line" in
            "PLAY ["*) play=${line#PLAY [} ;;
            "TASK ["*)
                [[ -z $play ]] || printf '    %s\n' "${play%%]*}"
                play="" task=${line#TASK [} task=${task%%]*} since=$SECONDS
                ;;
            *" : ok="*) sed -n 's/^\([^ ]*\) *: ok=[0-9]* *changed=\([0-9]*\).*/      \1: \2 changed/p' <<<"$line" ;;
            *", for "*" s") printf '      %s\n' "$line" ;;
        esac
    done
}

is_root() { [[ $EUID -eq 0 ]]; }

have_packages() {
    local missing=() package log
    for package in "$@"; do
        dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
            missing+=("$package")
    done
    [[ ${#missing[@]} -eq 0 ]] && return
    command -v apt-get >/dev/null || refuse "this machine has no apt-get. Install ${missing[*]} with its package manager, and run this script again."
    is_root || refuse "only root can install ${missing[*]}. Run 'sudo apt-get install ${missing[*]}', and run this script again."
    say "Installing ${missing[*]}"
    log=$(mktemp)
    mkdir -p "$AQUEDUCT_CACHE"
    # Set-up steps run in parallel, but only one apt-get can run at a time.
    { flock 5 && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
        >"$log" 2>&1 5>"$AQUEDUCT_CACHE/apt.lock" || refuse "cannot install ${missing[*]}: $(grep -m1 '^E:' "$log" || tail -n1 "$log"). Check that this machine can reach a Debian mirror."
}

have_engine() {
    if ! docker info >/dev/null 2>&1; then
        is_root || refuse "no container engine answers, and only root can start one. Start Docker and add your user to its group, or run this script as root."
        command -v dockerd >/dev/null || have_packages docker.io iptables
        say "Starting the container engine"
        if [[ -d /run/systemd/system ]]; then
            systemctl start docker
        else
            # The pid file of an engine that ended may contain the id of another process.
            pgrep -x dockerd >/dev/null || rm -f /var/run/docker.pid
            setsid dockerd >/var/log/dockerd.log 2>&1 </dev/null 8>&- &
        fi
        local waited=0
        until docker info >/dev/null 2>&1; do
            ((++waited <= 300)) || refuse "the container engine did not start within 300 s. Find the reason in its log (/var/log/dockerd.log or journalctl -u docker)."
            sleep 1
        done
    fi
    command -v docker >/dev/null || have_packages docker.io
}

have_python() {
    local python wanted log
    python=$(command -v python3.12 || command -v python3.11 || command -v python3 || true)
    if [[ -z $python ]] || ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        have_packages python3 python3-venv
        python=$(command -v python3)
    fi
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        refuse "$python is older than 3.11, which Aqueduct needs. Use Debian 12, Ubuntu 24.04 or a newer version."
    wanted=$("$python" --version; sha256sum locks/controller.txt)
    [[ -f .venv/complete && $(<.venv/complete) == "$wanted" ]] && return
    # Only one script at a time creates the environment. Another script waits and then uses it.
    exec 9>.venv.lock
    flock 9
    if [[ -f .venv/complete && $(<.venv/complete) == "$wanted" ]]; then
        exec 9>&-
        return
    fi
    # The folder is emptied first, but another work tree may use the target of a link.
    [[ ! -L .venv ]] || refuse ".venv is a link to an environment that does not match locks/controller.txt. Remove the link, and run this script again."
    say "Creating the Python environment"
    log=$(mktemp)
    "$python" -m venv --clear .venv
    # Install uv first, from the same lock, because it is several times faster than pip.
    awk '/^[a-z]/ {mine = /^uv==/} mine' locks/controller.txt >.venv/uv.txt
    { .venv/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes --requirement .venv/uv.txt &&
        .venv/bin/uv pip sync --quiet --python .venv/bin/python --require-hashes locks/controller.txt &&
        .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .; } >"$log" 2>&1 ||
        refuse "cannot create the Python environment: $(grep -m1 -i error "$log" || tail -n1 "$log"). Check that this machine can reach a Python package index."
    printf '%s' "$wanted" >.venv/complete
    exec 9>&-
}

# Software for playbooks, the lab and scenarios.
have_controller() {
    have_packages ca-certificates maven
    have_engine
    have_python
}

# The image of the hosts of labs, which contains the software that the control node would otherwise copy to each host.
have_lab_image() {
    local made_of package=()
    # If the image contains another version of our package, each lab installs it again. A run of all labs sets this variable,
    # to create the image for this version.
    [[ -z ${AQUEDUCT_IMAGE_OF_CODE:-} ]] || mapfile -t package < <(find aqueduct -name '*.py' | sort)
    made_of=$(cat locks/{base,connect,diode,mirror,spark}.txt artifacts/* roles/{hdfs,kafka,object_store,zookeeper}/defaults/main.yml \
        roles/artifact/*/*.yml roles/lab/vars/main.yml roles/lab/tasks/image.yml plugins/*/host_software.py plugins/module_utils/*.py \
        playbooks/lab_image.yml "${package[@]}" | sha256sum)
    export AQUEDUCT_LAB_IMAGE=aqueduct-hosts:${made_of:0:12}
    mkdir -p "$AQUEDUCT_CACHE"
    exec 7>"$AQUEDUCT_CACHE/lab-image.lock" # one lab creates the image, other labs wait
    flock 7
    if ! docker image inspect "$AQUEDUCT_LAB_IMAGE" >/dev/null 2>&1; then
        say "Creating the image of the hosts, with all software"
        quietly ansible-playbook --inventory aqueduct-hosts-image, --extra-vars "lab_image=$AQUEDUCT_LAB_IMAGE" playbooks/lab_image.yml
    fi
    exec 7>&-
}

# The image without software, for some hosts of scenarios.
have_debian_13() {
    ansible localhost --module-name ansible.builtin.include_role --args 'name=aqueduct.estate.lab tasks_from=image' \
        --extra-vars 'lab_release=trixie'
}

# Python 3.13 of Debian 13 with its ansible-core, from the same lock, and PySpark for the tests. uv downloads a missing Python.
have_newest_python() {
    newest_python="$AQUEDUCT_CACHE/python-3.13-$(cat locks/controller.txt locks/spark.txt | sha256sum | head -c 12)"
    [[ -f $newest_python/complete ]] && return
    say "Creating an environment with Python 3.13"
    .venv/bin/uv venv --quiet --clear --python 3.13 "$newest_python"
    .venv/bin/uv pip sync --quiet --python "$newest_python/bin/python" --require-hashes locks/controller.txt locks/spark.txt
    .venv/bin/uv pip install --quiet --python "$newest_python/bin/python" --no-deps --no-build-isolation .
    touch "$newest_python/complete"
}

# Tests of alert rules need only promtool, so Debian's package is unpacked and not installed: it would add a service.
have_promtool() {
    export AQUEDUCT_PROMTOOL="$AQUEDUCT_CACHE/promtool"
    [[ -x $AQUEDUCT_PROMTOOL ]] && return
    command -v apt-get >/dev/null || refuse "this machine has no apt-get. Copy promtool of Prometheus to $AQUEDUCT_PROMTOOL, and run this script again."
    say "Installing promtool for tests"
    local scratch log
    scratch=$(mktemp -d) log=$(mktemp)
    chmod a+rx "$scratch"
    (
        cd "$scratch"
        apt-get download -q prometheus || { is_root && apt-get update -q && apt-get download -q prometheus; }
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
    ) >"$log" 2>&1 || refuse "cannot download promtool: $(grep -m1 '^E:' "$log" || tail -n1 "$log"). Check that this machine can reach a Debian mirror."
    mkdir -p "$AQUEDUCT_CACHE"
    mv "$scratch/usr/bin/promtool" "$AQUEDUCT_PROMTOOL"
    rm -r "$scratch"
}

# Archives of the classes of Spark (as on hosts) and of Kafka, with which the JVMs of tests start faster.
archive_classes() {
    .venv/bin/python -m aqueduct.work.shared_classes >/dev/null
    .venv/bin/python -m servers.kafka_classes "$AQUEDUCT_KAFKA_JARS"
}

# Software that only tests need on the control node: promtool, Spark from the same wheels as on hosts, Kafka's jars, and the
# binary of the object store.
have_test_software() {
    have_promtool
    local wanted directory
    wanted=$(sha256sum locks/spark.txt artifacts/* | sha256sum | cut -c1-12)
    directory=$AQUEDUCT_CACHE/test-$wanted # other checkouts on this machine may need other versions
    export AQUEDUCT_KAFKA_JARS="$directory/libs" AQUEDUCT_VERSITYGW="$directory/versitygw"
    exec 9>.venv.lock # another script of this checkout waits, and then uses the installed software
    flock 9
    if [[ -d $directory && -f .venv/with-spark && $(<.venv/with-spark) == "$wanted" ]]; then
        archive_classes # creates new archives if Java was updated
        exec 9>&-
        return
    fi
    have_packages maven default-jdk-headless # the compiler is for artifacts/KafkaConfigs.java
    say "Installing Spark, Kafka and an object store for tests"
    [[ -d $directory ]] || .venv/bin/python - "$AQUEDUCT_CACHE" "$directory" <<'PY'
import shutil, sys, tarfile, tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import yaml

from aqueduct.control_node.artifacts import kafka_jars, versitygw, wheelhouse
from aqueduct.errors import AqueductError

cache = Path(sys.argv[1])
python = f"{sys.version_info.major}.{sys.version_info.minor}"
[gateway_lock] = Path("artifacts").glob("versitygw-*.sha256")
default = yaml.safe_load(Path("roles/kafka/defaults/main.yml").read_text())["kafka_version"]
kafka_lock = Path(f"artifacts/kafka-{default}.sha256")
try:
    with ThreadPoolExecutor() as making:  # each of them uses one core, or the network
        asked = (
            making.submit(wheelhouse, lock="locks/spark.txt", python=python, cache=str(cache)),
            making.submit(
                kafka_jars, version=kafka_lock.stem.removeprefix("kafka-"), source="maven", archive_url=None,
                archive_sha256=None, lock=str(kafka_lock), cache=str(cache),
            ),
            making.submit(
                versitygw, version=gateway_lock.stem.removeprefix("versitygw-"), source="go", archive_url=None,
                archive_sha256=None, lock=str(gateway_lock), toolchain="artifacts/go.txt", cache=str(cache),
            ),
        )
        wheels, jars, gateway = (each.result() for each in asked)
except AqueductError as error:
    sys.exit(f"test: {error}")
with tempfile.TemporaryDirectory(dir=cache) as scratch:
    whole = Path(scratch, "test")
    for artifact in (wheels, jars):
        with tarfile.open(artifact.path) as archive:
            archive.extractall(whole, filter="data")
    shutil.copy(gateway.path, whole / "versitygw")
    with suppress(OSError):  # another run of the same was faster
        whole.rename(sys.argv[2])
PY
    .venv/bin/uv pip install --quiet --python .venv/bin/python --no-index --no-deps --require-hashes --find-links "$directory" \
        --requirement "$directory/requirements.txt"
    archive_classes
    printf '%s' "$wanted" >.venv/with-spark
    exec 9>&-
}

# jars_for_tests NAME LOCK: install the jars with this name in servers/jars.py, and set the variable jars to their folder.
jars_for_tests() {
    local directory
    directory=$AQUEDUCT_CACHE/$1-$(sha256sum "$2" | cut -c1-12)
    jars="$directory/libs"
    [[ -d $directory ]] && return
    have_packages maven default-jre-headless
    say "Installing $1 for tests"
    .venv/bin/python -m servers.jars "$1" "$AQUEDUCT_CACHE" "$directory" "$2"
}

# Software for tests of HDFS and YARN.
have_hadoop() {
    local jars
    jars_for_tests hadoop artifacts/hadoop-3.4.1.sha256
    export AQUEDUCT_HADOOP_JARS=$jars
}

# Software for tests of ZooKeeper: the last Kafka that contains it.
have_zookeeper() {
    local jars
    jars_for_tests older-kafka artifacts/kafka-3.9.2.sha256
    export AQUEDUCT_OLDER_KAFKA_JARS=$jars
}

# The newest supported Kafka for brokers: only the jars of its own version.
have_newest_kafka() {
    local jars
    jars_for_tests newest-kafka artifacts/kafka-4.4.0.sha256
    export AQUEDUCT_NEWEST_KAFKA_JARS=$jars
}

# The browser for the test of the status page.
have_chromium() {
    export AQUEDUCT_CHROMIUM=/usr/bin/chromium-headless-shell
    have_packages chromium-headless-shell
}

# The package of the ssh server is also unpacked and not installed, so that it listens only while a test runs.
have_sshd() {
    local scratch log
    export AQUEDUCT_SSHD="$AQUEDUCT_CACHE/sshd"
    have_packages openssh-client procps rsync
    # If root starts the server, it handles connections before the login as this user, which the package would create.
    ! is_root || getent passwd sshd >/dev/null || useradd --system --home-dir=/run/sshd --no-create-home --shell=/usr/sbin/nologin sshd
    [[ -x $AQUEDUCT_SSHD ]] && return
    have_packages libwrap0 # depends on all libraries that the server needs
    say "Installing an ssh server for tests"
    scratch=$(mktemp -d) log=$(mktemp)
    chmod a+rx "$scratch"
    (
        cd "$scratch"
        apt-get download -q openssh-server || { is_root && apt-get update -q && apt-get download -q openssh-server; }
        dpkg-deb --fsys-tarfile openssh-server_*.deb | tar -x ./usr/sbin/sshd
    ) >"$log" 2>&1 || refuse "cannot download an ssh server: $(grep -m1 '^E:' "$log" || tail -n1 "$log"). Check that this machine can reach a Debian mirror."
    mkdir -p "$AQUEDUCT_CACHE"
    mv "$scratch/usr/sbin/sshd" "$AQUEDUCT_SSHD"
    rm -r "$scratch"
}

# Software for tests of sources that current clients cannot read.
have_oldest_kafka() {
    local jars
    have_zookeeper
    jars_for_tests oldest-kafka artifacts/oldest-kafka-0.10.0.1.sha256
    export AQUEDUCT_OLDEST_KAFKA_JARS=$jars
}

# Debian's PostgreSQL is unpacked and not installed, like promtool: it would add a service and create a database cluster.
have_postgresql() {
    local scratch log package
    export AQUEDUCT_POSTGRESQL="$AQUEDUCT_CACHE/postgresql-programs/bin"
    [[ -d $AQUEDUCT_POSTGRESQL ]] && return
    command -v apt-get >/dev/null || refuse "this machine has no apt-get. Copy the programs of PostgreSQL to $AQUEDUCT_POSTGRESQL, and run this script again."
    have_packages libpq5 libxml2 tzdata # depend on all libraries that the server needs
    say "Installing PostgreSQL for tests"
    scratch=$(mktemp -d) log=$(mktemp)
    chmod a+rx "$scratch"
    (
        cd "$scratch"
        package=$(postgresql_package) || { is_root && apt-get update -q && package=$(postgresql_package); }
        apt-get download -q "$package" "${package/-/-client-}" && # pg_dump is in the package of the client
            mkdir whole &&
            for each in *.deb; do
                dpkg-deb --fsys-tarfile "$each" | tar -x -C whole ./usr/lib/postgresql ./usr/share/postgresql || exit
            done &&
            ln -s "$(cd whole && echo usr/lib/postgresql/*/bin)" whole/bin # it finds its other files from this path
    ) >"$log" 2>&1 || refuse "cannot download PostgreSQL: $(grep -m1 '^E:' "$log" || tail -n1 "$log"). Check that this machine can reach a Debian mirror."
    mkdir -p "$AQUEDUCT_CACHE"
    mv -T "$scratch/whole" "$AQUEDUCT_CACHE/postgresql-programs"
    rm -r "$scratch"
}

# Print the package name of the distribution's newest server. Fails if apt has no package lists yet.
postgresql_package() {
    apt-cache depends postgresql | sed -n 's/^ *Depends: \(postgresql-[0-9]*\)$/\1/p' | grep .
}

# Software for tests of the Hive metastore: its programs from Maven Central, Hadoop's jars, and a database.
have_hive_metastore() {
    local lock=artifacts/files.sha256 directory
    have_hadoop
    have_postgresql
    directory=$AQUEDUCT_CACHE/hive-metastore-$(grep -E 'hive-standalone-metastore|postgresql' "$lock" | sha256sum | cut -c1-12)
    export AQUEDUCT_HIVE_METASTORE="$directory"
    [[ -d $directory ]] && return
    have_packages maven default-jre-headless
    say "Installing Hive's metastore for tests"
    .venv/bin/python - "$AQUEDUCT_CACHE" "$directory" "$lock" <<'PY'
import shutil, sys, tarfile, tempfile
from contextlib import suppress
from pathlib import Path

from aqueduct.control_node.artifacts import single_file
from aqueduct.errors import AqueductError
from servers.hive_metastore import COORDINATES, DRIVER

cache, directory, lock = sys.argv[1:]
try:
    programs, driver = (
        single_file(maven=each, url=None, sha256=None, lock=lock, cache=cache) for each in (COORDINATES, DRIVER)
    )
except AqueductError as error:
    sys.exit(f"test: {error}")
with tempfile.TemporaryDirectory(dir=cache) as scratch, tarfile.open(programs.path) as archive:
    archive.extractall(scratch, filter="data")
    [whole] = Path(scratch).iterdir()
    shutil.copy(driver.path, whole / "lib")
    with suppress(OSError):  # another run of the same was faster
        whole.rename(directory)
PY
}

# Software for tests of a schema registry: Apicurio Registry from Maven Central.
have_schema_registry() {
    local lock=artifacts/files.sha256 directory
    directory=$AQUEDUCT_CACHE/schema-registry-$(grep apicurio-registry "$lock" | sha256sum | cut -c1-12)
    export AQUEDUCT_SCHEMA_REGISTRY="$directory"
    [[ -d $directory ]] && return
    have_packages maven default-jre-headless
    say "Installing a schema registry for tests"
    .venv/bin/python - "$AQUEDUCT_CACHE" "$directory" "$lock" <<'PY'
import sys, tarfile, tempfile
from contextlib import suppress
from pathlib import Path

from aqueduct.control_node.artifacts import single_file
from aqueduct.errors import AqueductError
from servers.schema_registry import COORDINATES

cache, directory, lock = sys.argv[1:]
try:
    program = single_file(maven=COORDINATES, url=None, sha256=None, lock=lock, cache=cache)
except AqueductError as error:
    sys.exit(f"test: {error}")
with tempfile.TemporaryDirectory(dir=cache) as scratch, tarfile.open(program.path) as archive:
    archive.extractall(Path(scratch, "registry"), filter="data")
    with suppress(OSError):  # another run of the same was faster
        Path(scratch, "registry").rename(directory)
PY
}

# maven_file COORDINATES: download a file of artifacts/files.sha256, and print its path.
maven_file() {
    .venv/bin/python - "$AQUEDUCT_CACHE" "$1" <<'PY'
import sys

from aqueduct.control_node.artifacts import single_file
from aqueduct.errors import AqueductError

cache, coordinates = sys.argv[1:]
try:
    print(single_file(maven=coordinates, url=None, sha256=None, lock="artifacts/files.sha256", cache=cache).path)
except AqueductError as error:
    sys.exit(f"test: {error}")
PY
}

# Software for tests of Iceberg tables and of Avro: Spark's libraries for them, and the newest Spark that they support.
have_iceberg() {
    local spark
    spark=$AQUEDUCT_CACHE/streaming-$(sha256sum bench/streaming.txt | cut -c1-12)
    export AQUEDUCT_ICEBERG_PYTHON="$spark/bin/python"
    if [[ ! -f $spark/complete ]]; then
        say "Creating the environment of the Spark that reads Iceberg tables"
        python -m venv --clear "$spark"
        .venv/bin/uv pip sync --quiet --python "$spark/bin/python" --require-hashes bench/streaming.txt
        touch "$spark/complete"
    fi
    AQUEDUCT_ICEBERG_JAR=$(maven_file org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0)
    AQUEDUCT_SPARK_AVRO_JAR=$(maven_file org.apache.spark:spark-avro_2.13:4.1.1)
    export AQUEDUCT_ICEBERG_JAR AQUEDUCT_SPARK_AVRO_JAR
}
