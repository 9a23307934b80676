"""Messages of landings."""

from aqueduct.messages.message import Area, DeclaredMessage

LANDING = (
    DeclaredMessage(
        id="landing-option-misplaced",
        area=Area.LANDING,
        meaning="A table or a column declares an option that its format, kind or type does not have.",
        fix="Remove the option.",
    ),
    DeclaredMessage(
        id="table-file-misread",
        area=Area.LANDING,
        meaning="Java's ORC readers refuse a file that an earlier version wrote, or read other times in it.",
        fix="Run `aqueduct land reset` to the first offset of the file, then `aqueduct land`.",
    ),
    DeclaredMessage(
        id="landing-declaration-invalid",
        area=Area.LANDING,
        meaning="A key or value in the declaration of tables is unknown, missing or cannot be used.",
        fix="Correct the lines of the file that the message identifies.",
    ),
    DeclaredMessage(
        id="landing-schema-unreadable",
        area=Area.LANDING,
        meaning="The file of an Avro schema that a table declares cannot be read.",
        fix=(
            "Check the path, which is relative to the file of declarations, and run the command as a user "
            "who can read the file."
        ),
    ),
    DeclaredMessage(
        id="landing-sql-invalid",
        area=Area.LANDING,
        meaning=(
            "An SQL expression of a table is not valid, has another type than declared, or needs more than "
            "one row."
        ),
        fix="Correct the expression. It can use the columns of one row.",
    ),
    DeclaredMessage(
        id="landing-location-unsupported",
        area=Area.LANDING,
        meaning=(
            "Hadoop's name of the location of tables cannot be derived from its URL, so no table can be "
            "created in the metastore."
        ),
        fix="Pass `--no-metastore`, and create the tables by hand.",
    ),
    DeclaredMessage(
        id="table-change-unsupported",
        area=Area.LANDING,
        meaning=(
            "The declaration of an existing table has a change that its files do not allow. You can add"
            " columns, and change `from` and `topics`."
        ),
        fix="Undo the change, or declare a new table.",
    ),
    DeclaredMessage(
        id="table-folder-taken",
        area=Area.LANDING,
        meaning="The folder of a table has files of another landing, or files that no landing wrote.",
        fix=(
            "Declare another name. If the message says that no landing wrote the files, you can move "
            "them out of the folder. Do not move files of another landing: its table would lose its "
            "rows."
        ),
    ),
    DeclaredMessage(
        id="table-file-damaged",
        area=Area.LANDING,
        meaning=(
            "A file of a table differs from the one that was committed: its digest or its number of rows."
        ),
        fix=(
            "Run `aqueduct land verify`. Restore the file from a copy, or write its records again with "
            "`aqueduct land reset`."
        ),
    ),
    DeclaredMessage(
        id="table-file-missing",
        area=Area.LANDING,
        meaning="A file of a table was committed and does not exist.",
        fix=(
            "Run `aqueduct land verify`. Restore the file from a copy, or write its records again with "
            "`aqueduct land reset`."
        ),
    ),
    DeclaredMessage(
        id="table-times-unreadable",
        area=Area.LANDING,
        meaning=(
            "A file has times before 1677 or after 2262, which Arrow cannot read. Its rows stay as they are."
        ),
        fix=(
            "Run `aqueduct land reset` to the offset of the first row in the file, or to an offset "
            "after its last row. The file is then removed or kept as a whole."
        ),
    ),
    DeclaredMessage(
        id="table-changed-meanwhile",
        area=Area.LANDING,
        meaning=(
            "Another run landed, compacted, replayed or reset the table at the same time, so this run "
            "changed nothing more."
        ),
        fix="Run the command again. Before a reset, stop the landing of the table.",
    ),
    DeclaredMessage(
        id="landers-compete",
        area=Area.LANDING,
        meaning=(
            "Another lander committed to the table first, or a reset did. This run did not land what it had "
            "read."
        ),
        fix="Run the command again, and let only one lander at a time land a table.",
    ),
    DeclaredMessage(
        id="staged-files-missing",
        area=Area.LANDING,
        meaning=(
            "A run was suspended for hours, and a compaction removed its staged files. The run "
            "committed nothing."
        ),
        fix="Run the command again.",
    ),
    DeclaredMessage(
        id="landing-log-damaged",
        area=Area.LANDING,
        meaning=(
            "The log of a table has a commit that cannot be read, was renamed, is missing, or does not "
            "follow the one before."
        ),
        fix="Restore the files in the folder of the log from a copy before you land more.",
    ),
    DeclaredMessage(
        id="landing-commit-too-large",
        area=Area.LANDING,
        meaning="A commit of a table would be larger than readers accept. Nothing was committed.",
        fix="Run `aqueduct land compact`, so that the table has fewer files. Then run the command again.",
    ),
    DeclaredMessage(
        id="landing-checkpoint-damaged",
        area=Area.LANDING,
        meaning=(
            "A checkpoint of a table's log cannot be read, or was renamed. The commits have the same content."
        ),
        fix="Move the checkpoint out of the folder.",
    ),
    DeclaredMessage(
        id="landed-topic-missing",
        area=Area.LANDING,
        meaning="A topic that landed does not exist in the cluster any more. Its rows stay in the table.",
        fix="Restore the topic, or remove it from the declaration.",
    ),
    DeclaredMessage(
        id="landed-topic-recreated",
        area=Area.LANDING,
        meaning=(
            "A topic that landed was deleted and re-created, so its offsets refer to other records than "
            "those in the table. Nothing of the new topic lands."
        ),
        fix=(
            "To keep the rows of the deleted topic, remove the topic from `topics` of this table, and "
            "declare another table for it. Otherwise, run `aqueduct land reset --to-offsets` with an "
            "offset of each partition. With `--execute`, it removes all rows of the deleted topic, "
            "which cannot land again."
        ),
    ),
    DeclaredMessage(
        id="landed-topic-truncated",
        area=Area.LANDING,
        meaning=(
            "The log of a partition was truncated below the offset up to which it landed, so the table has "
            "records that the topic lost."
        ),
        fix=(
            "The table has the only copy of these records: first copy the rows from the truncation "
            "offset on into another table. Then run `aqueduct land reset --to-offsets` with that "
            "offset. With `--execute`, it removes these rows."
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
            "The position of a landing could not be committed as offsets of its group. The records are in "
            "the table."
        ),
        fix=(
            "Check the rights of the client to the group. The lag that Kafka's tools show is too large "
            "until then."
        ),
    ),
    DeclaredMessage(
        id="schema-registry-unreachable",
        area=Area.LANDING,
        meaning=(
            "The schema registry does not answer, refuses the client, or is another service. Nothing was "
            "committed."
        ),
        fix="Check that the registry runs, its URL, and the user in the file of `registry_config`.",
    ),
    DeclaredMessage(
        id="catalogue-not-given",
        area=Area.LANDING,
        meaning=(
            "A compaction of an Iceberg table has no metastore, so it cannot decide which replaced files "
            "may be removed."
        ),
        fix="Pass `--metastore`.",
    ),
    DeclaredMessage(
        id="catalogue-table-exists",
        area=Area.LANDING,
        meaning=(
            "The metastore has another table of the same name: its location, kind, columns or partitions "
            "differ."
        ),
        fix="Declare another name, or rename that table.",
    ),
    DeclaredMessage(
        id="catalogue-table-missing",
        area=Area.LANDING,
        meaning="A table was removed from the metastore while a command used it.",
        fix="Run the command again. A landing creates the table again.",
    ),
    DeclaredMessage(
        id="catalogue-table-locked",
        area=Area.LANDING,
        meaning="Another program holds the metastore's lock of an Iceberg table.",
        fix=(
            "End the program that the message identifies. Otherwise wait until the metastore releases its "
            "lock."
        ),
    ),
    DeclaredMessage(
        id="catalogue-table-changed",
        area=Area.LANDING,
        meaning="Another run changed an Iceberg table at the same time, several times in a row.",
        fix="Run the command again.",
    ),
    DeclaredMessage(
        id="metastore-unreachable",
        area=Area.LANDING,
        meaning=(
            "The Hive metastore does not answer. The rows are in the files, and readers see them when it "
            "answers again."
        ),
        fix=(
            "Check that the metastore runs, and check its address. The metastore must accept Thrift "
            "connections without Kerberos (SASL) and without TLS."
        ),
    ),
    DeclaredMessage(
        id="land-server-silent",
        area=Area.LANDING,
        meaning=(
            "The tables' store, the Hive metastore or the schema registry has answered no request of a "
            "landing service for 5 seconds. The lag is unknown meanwhile."
        ),
        fix=(
            "Check that the server runs, and that the host of the landing reaches it. The service continues "
            "by itself when the server answers."
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
        fix="Correct what the reason in the message identifies, and run the command again.",
    ),
    DeclaredMessage(
        id="iceberg-table-unreadable",
        area=Area.LANDING,
        meaning=(
            "The metadata of an Iceberg table are missing or cannot be read or changed. Its files and its "
            "log are complete."
        ),
        fix=(
            "Run the command again. If it fails again, look for the reason in the log of the Hive metastore. "
            "If a metadata file is missing, restore it from a copy. If no copy exists, rename the table in "
            "the metastore, which keeps it: the next landing creates the table from its log."
        ),
    ),
    DeclaredMessage(
        id="iceberg-writer-unknown",
        area=Area.LANDING,
        meaning=(
            "The newest snapshot of an Iceberg table is another program's, so its changes are not in the "
            "log of the table."
        ),
        fix=(
            "Read the changes in that snapshot, and keep what you need. Then roll the table back to the last "
            "snapshot of the landing, and revoke the other program's right to write."
        ),
    ),
    DeclaredMessage(
        id="iceberg-table-ahead",
        area=Area.LANDING,
        meaning=(
            "An Iceberg table has a commit that its log does not have: the log was restored from an older "
            "copy."
        ),
        fix=(
            "Stop the landing, and restore the commits of the log from a copy. If no copy exists, rename "
            "the table in the metastore, copy the rows that you need from it before the next `land compact`, "
            "which removes files that both tables use, and start the landing: it creates the table from its "
            "log."
        ),
    ),
    DeclaredMessage(
        id="iceberg-snapshot-inconsistent",
        area=Area.LANDING,
        meaning=(
            "A snapshot of an Iceberg table would have another number of files than the log, so it was not "
            "committed."
        ),
        fix="Run the command again. If it fails again, run `aqueduct land verify`, and report the fault.",
    ),
    DeclaredMessage(
        id="iceberg-manifests-left",
        area=Area.LANDING,
        meaning="An Iceberg table is complete. Manifests of expired snapshots could not be removed.",
        fix="Give the credentials the right to remove objects. The manifests that stay are not used.",
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
            "A table has columns from headers or SQL, so `land replay` cannot evaluate its bad records again."
        ),
        fix="Land these records again with `aqueduct land reset`, or select other tables with `--tables`.",
    ),
    DeclaredMessage(
        id="replayed-records-missing",
        area=Area.LANDING,
        meaning="A replay of bad records returned fewer rows than records, so it was not committed.",
        fix="Report the fault. The bad records are unchanged.",
    ),
    DeclaredMessage(
        id="topic-not-landed",
        area=Area.LANDING,
        meaning="No table of the declaration lands the topic.",
        fix="Check the name in `--to-offsets`, and the tables of `--tables`.",
    ),
    DeclaredMessage(
        id="reset-offset-unavailable",
        area=Area.LANDING,
        meaning=(
            "The topic does not have the offset that a reset was given, so its records cannot land again."
        ),
        fix="Pass an offset in the range that the message shows.",
    ),
    DeclaredMessage(
        id="landed-topic-compacted",
        area=Area.LANDING,
        meaning=(
            "The topic is compacted, so records that landed are not in it any more and cannot land again."
        ),
        fix="Choose other topics, or an offset that the table has not reached.",
    ),
)
