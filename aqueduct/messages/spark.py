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
        meaning="The folder of `SPARK_HOME` on this host contains no Spark.",
        fix="Install Spark, or set `SPARK_HOME` to the folder of Spark.",
    ),
    DeclaredMessage(
        id="spark-classes-not-archived",
        area=Area.SPARK,
        meaning="Java did not write the class archive that shortens the start of Spark.",
        fix="Correct the cause that Java reports. Spark also starts without the archive.",
    ),
    DeclaredMessage(
        id="spark-executors-missing",
        area=Area.SPARK,
        meaning=(
            "The Spark master started no executor within the time limit, or the executors ended immediately."
        ),
        fix="Check that the Spark workers run and have free cores and memory, or pass a longer `--wait`.",
    ),
    DeclaredMessage(
        id="spark-environment-mismatch",
        area=Area.SPARK,
        meaning=(
            "The Python environment or the version of Aqueduct on Spark workers differs from this host."
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
            "A Spark setting cannot be used. With this setting, Spark could run a task or an application "
            "twice, or two settings contradict each other."
        ),
        fix="Change the setting in the message.",
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
            "The Spark JVM on this host can read a key that only the command needs. A compromised executor "
            "could run code in this JVM and read the key. The command completes, lists the key in its "
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
            "While Spark ran, a file for its tasks was replaced by a link or by a key that only the command "
            "needs, or the `credential_process` of an AWS profile was changed. A compromised executor can "
            "make such changes. The key was not sent, and the program was not run."
        ),
        fix=(
            "Check whether this host or a worker is compromised, and restore the file. To renew a file, "
            "rename the new file to the name of the old file. Do not change a link in a folder that the "
            "command's user can write."
        ),
    ),
    DeclaredMessage(
        id="task-file-unreadable",
        area=Area.SPARK,
        meaning="A file that Spark tasks need cannot be read.",
        fix="Run the command as a user who can read the file.",
    ),
)
