"""Messages of landings."""

from aqueduct.messages.message import Area, DeclaredMessage

LANDING = (
    DeclaredMessage(
        id="landing-option-misplaced",
        area=Area.LANDING,
        meaning="A table or a column declares an option that its format, kind or type does not support.",
        fix="Remove the option.",
    ),
    DeclaredMessage(
        id="table-file-misread",
        area=Area.LANDING,
        meaning=(
            "An earlier version of Aqueduct wrote an ORC file that Java's ORC readers reject, or from "
            "which they read wrong times."
        ),
        fix="Run `aqueduct land reset` to the first offset of the file, then `aqueduct land`.",
    ),
    DeclaredMessage(
        id="landing-declaration-invalid",
        area=Area.LANDING,
        meaning="A key or value in the declaration of tables is unknown, missing or cannot be used.",
        fix="Correct the lines of the file in the message.",
    ),
    DeclaredMessage(
        id="landing-schema-unreadable",
        area=Area.LANDING,
        meaning="The file of an Avro schema that a table declares cannot be read.",
        fix=(
            "Check the path: a relative path begins at the folder of the file of declarations. Run the "
            "command as a user who can read the file."
        ),
    ),
    DeclaredMessage(
        id="landing-sql-invalid",
        area=Area.LANDING,
        meaning=(
            "An SQL expression of a table is not valid, its result has another type than declared, or the "
            "expression needs more than one row."
        ),
        fix="Correct the expression. An expression can use only the columns of one row.",
    ),
    DeclaredMessage(
        id="landing-location-unsupported",
        area=Area.LANDING,
        meaning=(
            "Aqueduct cannot derive the Hadoop URL of the location of the tables, so it cannot create "
            "tables in the metastore."
        ),
        fix="Pass `--no-metastore`, and create the tables manually.",
    ),
    DeclaredMessage(
        id="table-change-unsupported",
        area=Area.LANDING,
        meaning=(
            "The declaration of an existing table was changed in a way that its files do not allow. You can "
            "only add columns, and change `from` and `topics`."
        ),
        fix="Undo the change, or declare a new table.",
    ),
    DeclaredMessage(
        id="table-folder-taken",
        area=Area.LANDING,
        meaning="The folder of a table contains files of another landing, or files that no landing wrote.",
        fix=(
            "Declare another table name. If no landing wrote the files, you can move them to another "
            "folder. Do not move files of another landing: the table of that landing would lose rows."
        ),
    ),
    DeclaredMessage(
        id="table-file-damaged",
        area=Area.LANDING,
        meaning=("A file of a table was changed after its commit: its digest or its number of rows differs."),
        fix=(
            "Run `aqueduct land verify`. Restore the file from a copy, or land its records again with "
            "`aqueduct land reset`."
        ),
    ),
    DeclaredMessage(
        id="table-file-missing",
        area=Area.LANDING,
        meaning="A committed file of a table does not exist.",
        fix=(
            "Run `aqueduct land verify`. Restore the file from a copy, or land its records again with "
            "`aqueduct land reset`."
        ),
    ),
    DeclaredMessage(
        id="table-times-unreadable",
        area=Area.LANDING,
        meaning=(
            "A file contains times before 1677 or after 2262, which Arrow cannot read. The rows of the file "
            "are not changed."
        ),
        fix=(
            "Run `aqueduct land reset` to the offset of the first row in the file, or to an offset after "
            "its last row. The reset then removes or keeps the complete file."
        ),
    ),
    DeclaredMessage(
        id="table-changed-meanwhile",
        area=Area.LANDING,
        meaning=(
            "Another run landed, compacted, replayed or reset the table at the same time. This run stopped "
            "and made no more changes."
        ),
        fix="Run the command again. Before a reset, stop the landing of the table.",
    ),
    DeclaredMessage(
        id="landers-compete",
        area=Area.LANDING,
        meaning=(
            "Another landing or a reset committed to the table first. This run did not land the records "
            "that it had read."
        ),
        fix="Run the command again. Let only one landing at a time write to a table.",
    ),
    DeclaredMessage(
        id="staged-files-missing",
        area=Area.LANDING,
        meaning=(
            "A run was suspended for hours, and a compaction removed the uncommitted files of the run. The "
            "run committed nothing."
        ),
        fix="Run the command again.",
    ),
    DeclaredMessage(
        id="landing-log-damaged",
        area=Area.LANDING,
        meaning=(
            "A commit in the log of a table cannot be read, was renamed, is missing, or does not continue "
            "the commit before it."
        ),
        fix="Restore the files in the folder of the log from a copy. Do not land more records before.",
    ),
    DeclaredMessage(
        id="landing-commit-too-large",
        area=Area.LANDING,
        meaning="A commit of a table would be larger than the limit for reading. Nothing was committed.",
        fix="Run `aqueduct land compact` to reduce the number of files. Then run the command again.",
    ),
    DeclaredMessage(
        id="landing-checkpoint-damaged",
        area=Area.LANDING,
        meaning=(
            "A checkpoint of a table's log cannot be read, or was renamed. The commits contain the same "
            "information."
        ),
        fix="Move the checkpoint to another folder.",
    ),
    DeclaredMessage(
        id="landed-topic-missing",
        area=Area.LANDING,
        meaning="A topic with rows in the table no longer exists in the cluster. The rows stay in the table.",
        fix="Restore the topic, or remove the topic from the declaration.",
    ),
    DeclaredMessage(
        id="landed-topic-recreated",
        area=Area.LANDING,
        meaning=(
            "A topic with rows in the table was deleted and re-created. The same offsets now refer to other "
            "records, so the landing does not read the new topic."
        ),
        fix=(
            "To keep the rows of the deleted topic, remove the topic from `topics` of this table, and "
            "declare another table for it. Otherwise, run `aqueduct land reset --to-offsets` with an offset "
            "of each partition. With `--execute`, the command removes all rows of the deleted topic, and "
            "these rows cannot land again."
        ),
    ),
    DeclaredMessage(
        id="landed-topic-truncated",
        area=Area.LANDING,
        meaning=(
            "The log of a partition was truncated, for example by an unclean leader election. The table "
            "contains records that the topic lost."
        ),
        fix=(
            "The table contains the only copy of these records. First copy the rows from the truncation "
            "offset on to another table. Then run `aqueduct land reset --to-offsets` with that offset. With "
            "`--execute`, the command removes these rows."
        ),
    ),
    DeclaredMessage(
        id="landed-partition-leaderless",
        area=Area.LANDING,
        meaning="A partition has no leader, so it is skipped.",
        fix="Start the brokers that have its replicas.",
    ),
    DeclaredMessage(
        id="landing-position-not-committed",
        area=Area.LANDING,
        meaning=(
            "The landing could not commit its position as offsets of its consumer group. The records are in "
            "the table."
        ),
        fix=(
            "Grant the client `Read` on the group. Until the offsets are committed, Kafka's tools show a "
            "lag that is too large."
        ),
    ),
    DeclaredMessage(
        id="schema-registry-unreachable",
        area=Area.LANDING,
        meaning=(
            "The schema registry does not answer, rejects the client, or the address belongs to another "
            "service. Nothing was committed."
        ),
        fix=(
            "Check that the schema registry runs. Check its URL, and the user in the file of "
            "`registry_config`."
        ),
    ),
    DeclaredMessage(
        id="catalogue-not-given",
        area=Area.LANDING,
        meaning=(
            "The compaction of an Iceberg table runs without `--metastore`. Without the metastore, the "
            "compaction does not find out which replaced files may be removed."
        ),
        fix="Pass the address of the Hive metastore with `--metastore`.",
    ),
    DeclaredMessage(
        id="catalogue-table-exists",
        area=Area.LANDING,
        meaning=(
            "The metastore already has a table with this name and another location, kind, columns or "
            "partitions."
        ),
        fix="Declare another table name, or rename the table in the metastore.",
    ),
    DeclaredMessage(
        id="catalogue-table-missing",
        area=Area.LANDING,
        meaning="A table was removed from the metastore while a command used it.",
        fix="Run the command again. A landing re-creates the table.",
    ),
    DeclaredMessage(
        id="catalogue-table-locked",
        area=Area.LANDING,
        meaning="Another program holds the lock of an Iceberg table in the metastore.",
        fix=("End the program in the message, or wait until the metastore releases the lock."),
    ),
    DeclaredMessage(
        id="catalogue-table-changed",
        area=Area.LANDING,
        meaning=(
            "Another run changed an Iceberg table at the same time. This run tried its change several "
            "times without success."
        ),
        fix="Run the command again.",
    ),
    DeclaredMessage(
        id="metastore-unreachable",
        area=Area.LANDING,
        meaning=(
            "The Hive metastore does not answer. The new rows are in the files. Readers see these rows when "
            "the metastore answers again."
        ),
        fix=(
            "Check that the metastore runs. Check its address. The metastore must accept Thrift connections "
            "without Kerberos (SASL) and without TLS."
        ),
    ),
    DeclaredMessage(
        id="land-server-silent",
        area=Area.LANDING,
        meaning=(
            "The store of the tables, the Hive metastore or the schema registry has not answered the "
            "landing service for 5 seconds. The lag is unknown until the server answers."
        ),
        fix=(
            "Check that the server runs, and that the host of the landing can reach it. The landing service "
            "continues when the server answers."
        ),
    ),
    DeclaredMessage(
        id="metastore-unsupported",
        area=Area.LANDING,
        meaning="The server at the address of `--metastore` is not a metastore of Hive 3.1 or 4.",
        fix="Check the address and the version.",
    ),
    DeclaredMessage(
        id="metastore-request-refused",
        area=Area.LANDING,
        meaning="The Hive metastore refused a request.",
        fix="Correct the cause in the message, and run the command again.",
    ),
    DeclaredMessage(
        id="iceberg-table-unreadable",
        area=Area.LANDING,
        meaning=(
            "The metadata of an Iceberg table are missing, or cannot be read or changed. The files and the "
            "log of the table are complete."
        ),
        fix=(
            "Run the command again. If it fails again, look for the reason in the log of the Hive "
            "metastore. If a metadata file is missing, restore the file from a copy. If no copy exists, "
            "rename the table in the metastore, which keeps the renamed table. The next landing re-creates "
            "the table from its log."
        ),
    ),
    DeclaredMessage(
        id="iceberg-writer-unknown",
        area=Area.LANDING,
        meaning=(
            "Another program wrote the newest snapshot of an Iceberg table, so the changes of this snapshot "
            "are not in the log of the table."
        ),
        fix=(
            "Read the changes in the snapshot, and copy the rows that you need. Then roll the table back to "
            "the last snapshot of the landing. Revoke the write permission of the other program."
        ),
    ),
    DeclaredMessage(
        id="iceberg-table-ahead",
        area=Area.LANDING,
        meaning=(
            "The metastore has a newer commit of an Iceberg table than the log of the table. The log may "
            "have been restored from an older copy."
        ),
        fix=(
            "Stop the landing, and restore the missing commits of the log from a copy. If no copy exists, "
            "rename the table in the metastore. Copy the rows that you need from the renamed table before "
            "the next `aqueduct land compact`, because it removes files that both tables use. Then start "
            "the landing, which re-creates the table from its log."
        ),
    ),
    DeclaredMessage(
        id="iceberg-snapshot-inconsistent",
        area=Area.LANDING,
        meaning=(
            "A new snapshot of an Iceberg table would have another number of files than the log, so the "
            "snapshot was not committed."
        ),
        fix=(
            "Run the command again. If it fails again, run `aqueduct land verify`, and report this as a "
            "fault of Aqueduct."
        ),
    ),
    DeclaredMessage(
        id="iceberg-manifests-left",
        area=Area.LANDING,
        meaning=(
            "The landing could not remove manifest files of expired snapshots of an Iceberg table. The "
            "table is complete."
        ),
        fix="Grant the credentials the right to delete objects. The remaining manifest files are not used.",
    ),
    DeclaredMessage(
        id="compaction-disk-full",
        area=Area.LANDING,
        meaning="A compaction cannot write its temporary files on a host.",
        fix="Free space on the host, or set `TMPDIR` to another folder.",
    ),
    DeclaredMessage(
        id="table-not-replayable",
        area=Area.LANDING,
        meaning=(
            "A table has columns from headers or SQL, so `aqueduct land replay` cannot evaluate the bad "
            "records of the table again."
        ),
        fix="Land these records again with `aqueduct land reset`, or select other tables with `--tables`.",
    ),
    DeclaredMessage(
        id="replayed-records-missing",
        area=Area.LANDING,
        meaning="A replay returned fewer rows than rejected records, so the replay was not committed.",
        fix="Report this as a fault of Aqueduct. The rejected records are unchanged.",
    ),
    DeclaredMessage(
        id="topic-not-landed",
        area=Area.LANDING,
        meaning="No declared table lands the topic.",
        fix="Check the topic in `--to-offsets`, and the tables in `--tables`.",
    ),
    DeclaredMessage(
        id="reset-offset-unavailable",
        area=Area.LANDING,
        meaning=(
            "The log of the partition does not contain the offset of the reset, so the records cannot land "
            "again."
        ),
        fix="Pass an offset in the range that the message shows.",
    ),
    DeclaredMessage(
        id="landed-topic-compacted",
        area=Area.LANDING,
        meaning=(
            "The topic is compacted. Compaction removed records that have landed, so these records cannot "
            "land again."
        ),
        fix="Choose other topics, or an offset up to which nothing has landed yet.",
    ),
)
