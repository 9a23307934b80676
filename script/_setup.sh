# Sourced by the other scripts: brings what a fresh Debian 12 or Ubuntu machine lacks, and tells what it does.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export AQUEDUCT_CACHE="${AQUEDUCT_CACHE:-$HOME/.cache/aqueduct}"
export ANSIBLE_CONFIG="$root/ansible.cfg" PATH="$root/.venv/bin:$PATH"
# Images of build machines set it, and each Python that starts would compile all that it imports again.
unset PYTHONDONTWRITEBYTECODE

say() { printf '\n==> [%3ds] %s\n' "$SECONDS" "$*"; }

# One sentence: what, where, and the way on. Nothing was done (2), or it did not work (1).
refuse() {
    printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 2
}
fail() {
    printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}
no_arguments() { [[ $# -eq 0 ]] || refuse "takes no argument $1; --help says what it does."; }

exec 8>&2 # a command's output may go elsewhere when it is interrupted
on_interrupt() {
    printf '\n%s: interrupted; nothing is broken: run it again to resume, or remove the lab with script/lab-down.\n' \
        "$(basename "$0")" >&8
    trap - EXIT
    exit 130
}
trap on_interrupt INT

# tell_memory MEBIBYTES: says so where this machine has less. Nothing is refused, for it may have swap.
tell_memory() {
    local has
    has=$(awk '/^MemTotal:/ {print int($2 / 1024)}' /proc/meminfo)
    ((has >= $1)) ||
        say "This machine has $has MiB of memory, and what is started here takes up to $1 MiB: the kernel may kill some of it"
}

# at_most NUMBER MEBIBYTES: how many things of that size run at once.
at_most() {
    awk -v most="$1" -v size="$2" '/^MemAvailable:/ {fit = int($2 / 1024 / size); print fit < 1 ? 1 : fit < most ? fit : most}' /proc/meminfo
}

# help FILE: the comment at the top of a script is its help.
help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$1"; }

# Shows of a playbook what tells progress, as it comes; and why it failed, where it does.
quietly() {
    local output
    output=$(mktemp)
    if ! "$@" 2>&1 | tee "$output" | progress; then
        # From the first error on, without the recap.
        sed -n '/^\(\[ERROR\]\|fatal:\)/,/^PLAY RECAP/{/^PLAY RECAP/d;p}' "$output" >&2
        fail "'$*' failed; why stands above, and all that it said in $output. Correct it and run this again."
    fi
    rm -f "$output"
}

# Of what ansible-playbook says: plays that have hosts, what modules of ours wait for, what changed. And where nothing is
# said for a while, which task it is and for how long.
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
    command -v apt-get >/dev/null || refuse "this machine has no apt-get; install ${missing[*]} by its own means and run again."
    is_root || refuse "${missing[*]} must be installed, which needs root: run 'sudo apt-get install ${missing[*]}', then this again."
    say "Installing ${missing[*]}"
    log=$(mktemp)
    mkdir -p "$AQUEDUCT_CACHE"
    # Set-up steps run side by side, and apt-get takes one caller at a time.
    { flock 5 && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
        >"$log" 2>&1 5>"$AQUEDUCT_CACHE/apt.lock" || refuse "could not install ${missing[*]}: $(grep -m1 '^E:' "$log" || tail -n1 "$log"); see that this machine reaches a Debian mirror."
}

have_engine() {
    if ! docker info >/dev/null 2>&1; then
        is_root || refuse "no container engine answers, and only root can start one: start Docker and add yourself to its group, or run this as root."
        command -v dockerd >/dev/null || have_packages docker.io iptables
        say "Starting the container engine"
        if [[ -d /run/systemd/system ]]; then
            systemctl start docker
        else
            # What a dead engine left may name a process that is another one by now.
            pgrep -x dockerd >/dev/null || rm -f /var/run/docker.pid
            setsid dockerd >/var/log/dockerd.log 2>&1 </dev/null 8>&- &
        fi
        local waited=0
        until docker info >/dev/null 2>&1; do
            ((++waited <= 300)) || refuse "the container engine did not start within 300 s; its log (/var/log/dockerd.log or journalctl -u docker) says why."
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
        refuse "$python is older than 3.11, which Aqueduct needs; Debian 12 and Ubuntu 24.04 have a newer one."
    wanted=$("$python" --version; sha256sum locks/controller.txt)
    [[ -f .venv/complete && $(<.venv/complete) == "$wanted" ]] && return
    # One script at a time makes it; another waits, and finds it made.
    exec 9>.venv.lock
    flock 9
    if [[ -f .venv/complete && $(<.venv/complete) == "$wanted" ]]; then
        exec 9>&-
        return
    fi
    # It is emptied before it is filled, and another work tree may be using what a link leads to.
    [[ ! -L .venv ]] || refuse ".venv is a link, and what it leads to is not what locks/controller.txt has; remove the link and run again."
    say "Making the Python environment"
    log=$(mktemp)
    "$python" -m venv --clear .venv
    # uv first, checked against the same lock, because it is several times as fast as pip.
    awk '/^[a-z]/ {mine = /^uv==/} mine' locks/controller.txt >.venv/uv.txt
    { .venv/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes --requirement .venv/uv.txt &&
        .venv/bin/uv pip sync --quiet --python .venv/bin/python --require-hashes locks/controller.txt &&
        .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .; } >"$log" 2>&1 ||
        refuse "could not make the Python environment: $(grep -m1 -i error "$log" || tail -n1 "$log"); see that this machine reaches a Python package index."
    printf '%s' "$wanted" >.venv/complete
    exec 9>&-
}

# What playbooks, lab and scenarios need.
have_controller() {
    have_packages ca-certificates maven
    have_engine
    have_python
}

# Hosts of labs start with the software that the control node would copy to each of them.
have_lab_image() {
    local made_of package=()
    # Hosts install another version of our own package anew, in each lab: whoever runs all labs makes the image for this one.
    [[ -z ${AQUEDUCT_IMAGE_OF_CODE:-} ]] || mapfile -t package < <(find aqueduct -name '*.py' | sort)
    made_of=$(cat locks/{base,connect,diode,mirror,spark}.txt artifacts/* roles/{hdfs,kafka,object_store,zookeeper}/defaults/main.yml \
        roles/artifact/*/*.yml roles/lab/vars/main.yml roles/lab/tasks/image.yml plugins/*/host_software.py plugins/module_utils/*.py \
        playbooks/lab_image.yml "${package[@]}" | sha256sum)
    export AQUEDUCT_LAB_IMAGE=aqueduct-hosts:${made_of:0:12}
    mkdir -p "$AQUEDUCT_CACHE"
    exec 7>"$AQUEDUCT_CACHE/lab-image.lock" # one lab makes it, another one waits
    flock 7
    if ! docker image inspect "$AQUEDUCT_LAB_IMAGE" >/dev/null 2>&1; then
        say "Making the image of the hosts, with all software"
        quietly ansible-playbook --inventory aqueduct-hosts-image, --extra-vars "lab_image=$AQUEDUCT_LAB_IMAGE" playbooks/lab_image.yml
    fi
    exec 7>&-
}

# The bare image of hosts of scenarios that have none of the software.
have_debian_13() {
    ansible localhost --module-name ansible.builtin.include_role --args 'name=aqueduct.estate.lab tasks_from=image' \
        --extra-vars 'lab_release=trixie'
}

# Debian 13's Python with its ansible-core, from the same lock, and PySpark for the tests. uv fetches the Python if none is here.
have_newest_python() {
    newest_python="$AQUEDUCT_CACHE/python-3.13-$(cat locks/controller.txt locks/spark.txt | sha256sum | head -c 12)"
    [[ -f $newest_python/complete ]] && return
    say "Making an environment of Python 3.13"
    .venv/bin/uv venv --quiet --clear --python 3.13 "$newest_python"
    .venv/bin/uv pip sync --quiet --python "$newest_python/bin/python" --require-hashes locks/controller.txt locks/spark.txt
    .venv/bin/uv pip install --quiet --python "$newest_python/bin/python" --no-deps --no-build-isolation .
    touch "$newest_python/complete"
}

# The alert rules' tests want promtool alone, so Debian's package is opened and not installed: no service comes with it.
have_promtool() {
    export AQUEDUCT_PROMTOOL="$AQUEDUCT_CACHE/promtool"
    [[ -x $AQUEDUCT_PROMTOOL ]] && return
    command -v apt-get >/dev/null || refuse "this machine has no apt-get; put Prometheus's promtool at $AQUEDUCT_PROMTOOL and run again."
    say "Installing promtool for tests"
    local scratch log
    scratch=$(mktemp -d) log=$(mktemp)
    chmod a+rx "$scratch"
    (
        cd "$scratch"
        apt-get download -q prometheus || { is_root && apt-get update -q && apt-get download -q prometheus; }
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
    ) >"$log" 2>&1 || refuse "could not fetch promtool: $(grep -m1 '^E:' "$log" || tail -n1 "$log"); see that this machine reaches a Debian mirror."
    mkdir -p "$AQUEDUCT_CACHE"
    mv "$scratch/usr/bin/promtool" "$AQUEDUCT_PROMTOOL"
    rm -r "$scratch"
}

# Spark's as on hosts, and Kafka's: a test's JVMs start sooner.
archive_classes() {
    .venv/bin/python -m aqueduct.work.shared_classes >/dev/null
    .venv/bin/python -m servers.kafka_classes "$AQUEDUCT_KAFKA_JARS"
}

# What only tests need on the control node: promtool, Spark, from the same wheels as the hosts', and servers of their own,
# which are Kafka's jars and the object store's binary.
have_test_software() {
    have_promtool
    local wanted directory
    wanted=$(sha256sum locks/spark.txt artifacts/* | sha256sum | cut -c1-12)
    directory=$AQUEDUCT_CACHE/test-$wanted # another checkout of this machine may want, and use, another one
    export AQUEDUCT_KAFKA_JARS="$directory/libs" AQUEDUCT_VERSITYGW="$directory/versitygw"
    exec 9>.venv.lock # another script of this checkout waits for it, and finds it complete
    flock 9
    if [[ -d $directory && -f .venv/with-spark && $(<.venv/with-spark) == "$wanted" ]]; then
        archive_classes # again after Java was updated
        exec 9>&-
        return
    fi
    have_packages maven default-jdk-headless # its compiler runs artifacts/KafkaConfigs.java
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
    with ThreadPoolExecutor() as making:  # each of them keeps one core, or the network
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

# jars_for_tests WHAT LOCK, as servers/jars.py names them: tells the folder that they are in.
jars_for_tests() {
    local directory
    directory=$AQUEDUCT_CACHE/$1-$(sha256sum "$2" | cut -c1-12)
    jars="$directory/libs"
    [[ -d $directory ]] && return
    have_packages maven default-jre-headless
    say "Installing $1 for tests"
    .venv/bin/python -m servers.jars "$1" "$AQUEDUCT_CACHE" "$directory" "$2"
}

# What tests of HDFS and YARN need.
have_hadoop() {
    local jars
    jars_for_tests hadoop artifacts/hadoop-3.4.1.sha256
    export AQUEDUCT_HADOOP_JARS=$jars
}

# What tests of ZooKeeper need: the last Kafka that has it.
have_zookeeper() {
    local jars
    jars_for_tests older-kafka artifacts/kafka-3.9.2.sha256
    export AQUEDUCT_OLDER_KAFKA_JARS=$jars
}

# The newest Kafka that brokers may have: what is of its version alone.
have_newest_kafka() {
    local jars
    jars_for_tests newest-kafka artifacts/kafka-4.4.0.sha256
    export AQUEDUCT_NEWEST_KAFKA_JARS=$jars
}

# The ssh server of tests is opened and not installed, too: none listens on this machine but while a test runs.
have_chromium() {
    export AQUEDUCT_CHROMIUM=/usr/bin/chromium-headless-shell
    have_packages chromium-headless-shell
}

have_sshd() {
    local scratch log
    export AQUEDUCT_SSHD="$AQUEDUCT_CACHE/sshd"
    have_packages openssh-client procps rsync
    # Where it is started by root, it gives what comes before the login to this user, as the package would have it.
    ! is_root || getent passwd sshd >/dev/null || useradd --system --home-dir=/run/sshd --no-create-home --shell=/usr/sbin/nologin sshd
    [[ -x $AQUEDUCT_SSHD ]] && return
    have_packages libwrap0 # with it come all libraries that the server needs
    say "Installing an ssh server for tests"
    scratch=$(mktemp -d) log=$(mktemp)
    chmod a+rx "$scratch"
    (
        cd "$scratch"
        apt-get download -q openssh-server || { is_root && apt-get update -q && apt-get download -q openssh-server; }
        dpkg-deb --fsys-tarfile openssh-server_*.deb | tar -x ./usr/sbin/sshd
    ) >"$log" 2>&1 || refuse "could not fetch an ssh server: $(grep -m1 '^E:' "$log" || tail -n1 "$log"); see that this machine reaches a Debian mirror."
    mkdir -p "$AQUEDUCT_CACHE"
    mv "$scratch/usr/sbin/sshd" "$AQUEDUCT_SSHD"
    rm -r "$scratch"
}

# What tests of sources need that today's clients can't read.
have_oldest_kafka() {
    local jars
    have_zookeeper
    jars_for_tests oldest-kafka artifacts/oldest-kafka-0.10.0.1.sha256
    export AQUEDUCT_OLDEST_KAFKA_JARS=$jars
}

# Debian's PostgreSQL is opened and not installed, as promtool is: no service comes with it, nor a cluster of its own.
have_postgresql() {
    local scratch log package
    export AQUEDUCT_POSTGRESQL="$AQUEDUCT_CACHE/postgresql-programs/bin"
    [[ -d $AQUEDUCT_POSTGRESQL ]] && return
    command -v apt-get >/dev/null || refuse "this machine has no apt-get; put PostgreSQL's programs into $AQUEDUCT_POSTGRESQL and run again."
    have_packages libpq5 libxml2 tzdata # with them come all libraries that the server needs
    say "Installing PostgreSQL for tests"
    scratch=$(mktemp -d) log=$(mktemp)
    chmod a+rx "$scratch"
    (
        cd "$scratch"
        package=$(postgresql_package) || { is_root && apt-get update -q && package=$(postgresql_package); }
        apt-get download -q "$package" "${package/-/-client-}" && # pg_dump is the client's
            mkdir whole &&
            for each in *.deb; do
                dpkg-deb --fsys-tarfile "$each" | tar -x -C whole ./usr/lib/postgresql ./usr/share/postgresql || exit
            done &&
            ln -s "$(cd whole && echo usr/lib/postgresql/*/bin)" whole/bin # it finds its other files from there
    ) >"$log" 2>&1 || refuse "could not fetch PostgreSQL: $(grep -m1 '^E:' "$log" || tail -n1 "$log"); see that this machine reaches a Debian mirror."
    mkdir -p "$AQUEDUCT_CACHE"
    mv -T "$scratch/whole" "$AQUEDUCT_CACHE/postgresql-programs"
    rm -r "$scratch"
}

# Names the distribution's newest server; fails where apt knows of none yet.
postgresql_package() {
    apt-cache depends postgresql | sed -n 's/^ *Depends: \(postgresql-[0-9]*\)$/\1/p' | grep .
}

# What tests of Hive's metastore need: its programs from Maven Central, Hadoop's jars below them, and a database.
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

# What tests of a schema registry need: Apicurio's, whole, from Maven Central.
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

# maven_file COORDINATES: fetches a file that artifacts/files.sha256 has, and tells where it is.
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

# What tests of Iceberg tables and of Avro need: Spark's libraries for them, and the newest Spark that they are for.
have_iceberg() {
    local spark
    spark=$AQUEDUCT_CACHE/streaming-$(sha256sum bench/streaming.txt | cut -c1-12)
    export AQUEDUCT_ICEBERG_PYTHON="$spark/bin/python"
    if [[ ! -f $spark/complete ]]; then
        say "Making the environment of the Spark that reads Iceberg tables"
        python -m venv --clear "$spark"
        .venv/bin/uv pip sync --quiet --python "$spark/bin/python" --require-hashes bench/streaming.txt
        touch "$spark/complete"
    fi
    AQUEDUCT_ICEBERG_JAR=$(maven_file org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0)
    AQUEDUCT_SPARK_AVRO_JAR=$(maven_file org.apache.spark:spark-avro_2.13:4.1.1)
    export AQUEDUCT_ICEBERG_JAR AQUEDUCT_SPARK_AVRO_JAR
}
