"""Messages about Spark and its workers."""

from aqueduct.messages.message import Area, DeclaredMessage

SPARK = (
    DeclaredMessage(
        id="spark-start-failed",
        area=Area.SPARK,
        meaning="Spark did not start on this host, or its driver stopped.",
        fix="Check the reason in the message and the log of Spark, and run the command again.",
    ),
    DeclaredMessage(
        id="spark-missing",
        area=Area.SPARK,
        meaning="This host has no Spark in the folder of `SPARK_HOME`.",
        fix="Install Spark, or set `SPARK_HOME`.",
    ),
    DeclaredMessage(
        id="spark-classes-not-archived",
        area=Area.SPARK,
        meaning="Java did not write the archive of classes with which Spark starts faster.",
        fix="Correct what Java reports. Spark also starts without the archive.",
    ),
    DeclaredMessage(
        id="spark-executors-missing",
        area=Area.SPARK,
        meaning="The Spark master gave no executor in time, or its executors ended at once.",
        fix="Check that its workers run and have free cores and memory, or pass a longer `--wait`.",
    ),
    DeclaredMessage(
        id="spark-environment-mismatch",
        area=Area.SPARK,
        meaning=(
            "Spark workers do not have the Python environment or the version of Aqueduct that this host has."
        ),
        fix=(
            "Pack the environment with `aqueduct environment --out env.tar.gz`, and pass `--conf "
            "spark.archives=env.tar.gz#environment`."
        ),
    ),
    DeclaredMessage(
        id="spark-setting-unsupported",
        area=Area.SPARK,
        meaning=(
            "A Spark setting cannot be used, because Spark could run a task or an application twice, or "
            "two settings contradict each other."
        ),
        fix="Change the setting that the message identifies.",
    ),
    DeclaredMessage(
        id="spark-settings-unreadable",
        area=Area.SPARK,
        meaning="A file of Spark settings cannot be read.",
        fix="Check the path, and run the command as a user who can read the file.",
    ),
    DeclaredMessage(
        id="spark-job-failed",
        area=Area.SPARK,
        meaning="Spark stopped a job.",
        fix="Check the log of the Spark application, and run the command again.",
    ),
    DeclaredMessage(
        id="spark-result-invalid",
        area=Area.SPARK,
        meaning=(
            "A Spark task returned bytes that are not a result of its function. An executor may be "
            "compromised."
        ),
        fix=(
            "Check the hosts of the Spark cluster. If one is compromised, replace the secret of the cluster "
            "and the keys that its tasks had. Then run the command again."
        ),
    ),
    DeclaredMessage(
        id="spark-key-within-reach",
        area=Area.SPARK,
        meaning=(
            "Spark's JVM on this host can read a key that only the command needs. A compromised executor can "
            "run code in the JVM, and so read the key. The command does its work, lists the key in its "
            "report, and exits with 3."
        ),
        fix=(
            "Use Linux 5.13 or newer. Start `aqueduct` with `--master` and not with `spark-submit`. Keep "
            "the key in a folder in which Spark creates no files: not below `/tmp`, `TMPDIR` or "
            "`spark.local.dir`."
        ),
    ),
    DeclaredMessage(
        id="task-file-replaced",
        area=Area.SPARK,
        meaning=(
            "While Spark ran, a file that its tasks need was replaced by a link, or by a key that only the "
            "command needs, or a profile of AWS got another `credential_process`. A compromised executor "
            "can do this. The key was not sent, and the program was not run."
        ),
        fix=(
            "Check this host and the workers for a compromise, and restore the file. To renew a file, rename "
            "the new one to its name; do not change a link in a folder that the command's user can write."
        ),
    ),
    DeclaredMessage(
        id="task-file-unreadable",
        area=Area.SPARK,
        meaning="A file that Spark tasks need cannot be read.",
        fix="Run the command as a user who can read the file.",
    ),
)
