"""Messages of the command line, of its options and of the files that they list."""

from aqueduct.messages.message import Area, DeclaredMessage

COMMAND_LINE = (
    DeclaredMessage(
        id="usage-error",
        area=Area.COMMAND_LINE,
        meaning="The command line is incomplete, or contains an unknown option or value.",
        fix="Run `aqueduct VERB --help`.",
    ),
    DeclaredMessage(
        id="option-renamed",
        area=Area.COMMAND_LINE,
        meaning=(
            "The command line, a file of `--config` or the environment contains the former name of an "
            "option. The former name was accepted."
        ),
        fix="Use the new name in the message. The next minor release rejects the former name.",
    ),
    DeclaredMessage(
        id="link-options-invalid",
        area=Area.COMMAND_LINE,
        meaning="Options of `aqueduct diode` are unknown or missing, or have values that cannot be used.",
        fix="Correct all options that the message lists.",
    ),
    DeclaredMessage(
        id="site-name-invalid",
        area=Area.COMMAND_LINE,
        meaning="A site of `init --sites` has a name that cannot be part of the names of hosts and groups.",
        fix="Use a name of lower-case letters and digits that begins with a letter.",
    ),
    DeclaredMessage(
        id="site-repeated",
        area=Area.COMMAND_LINE,
        meaning="A site of `init --sites` is listed twice.",
        fix="Remove one of the two entries.",
    ),
    DeclaredMessage(
        id="sites-without-source",
        area=Area.COMMAND_LINE,
        meaning="All sites of `init --sites` are lakes, so no site exists that they could mirror.",
        fix="Add a site whose name does not begin with `lake` or `dw`.",
    ),
    DeclaredMessage(
        id="inventory-name-invalid",
        area=Area.COMMAND_LINE,
        meaning="The value of `init --name` cannot be the name of a folder below `inventories`.",
        fix="Use a name of lower-case letters and digits that begins with a letter.",
    ),
    DeclaredMessage(
        id="init-file-exists",
        area=Area.COMMAND_LINE,
        meaning=(
            "The folder of `init` already contains a file that `init` would create. Nothing was overwritten."
        ),
        fix="Choose another folder, or move the existing files to another folder.",
    ),
    DeclaredMessage(
        id="init-release-missing",
        area=Area.COMMAND_LINE,
        meaning="The folder of `init --from` lacks the package or the collection of the installed release.",
        fix="Pass the folder that contains the package and the collection.",
    ),
    DeclaredMessage(
        id="init-folder-unwritable",
        area=Area.COMMAND_LINE,
        meaning="`init` cannot write to the folder.",
        fix="Choose a folder to which this user can write.",
    ),
    DeclaredMessage(
        id="release-mismatch",
        area=Area.COMMAND_LINE,
        meaning=(
            "The collection `aqueduct.estate` and the Python package `aqueduct-estate` are of different "
            "releases."
        ),
        fix="Install the same release of both, as the message describes.",
    ),
    DeclaredMessage(
        id="playbook-variable-unknown",
        area=Area.COMMAND_LINE,
        meaning="`-e` sets a variable that neither the playbook, nor its roles, nor Ansible define.",
        fix="Correct the name, or remove the variable.",
    ),
    DeclaredMessage(
        id="playbook-variable-missing",
        area=Area.COMMAND_LINE,
        meaning="A playbook needs a variable that was not passed with `-e`.",
        fix="Add the variable that the message lists.",
    ),
    DeclaredMessage(
        id="playbook-variable-invalid",
        area=Area.COMMAND_LINE,
        meaning="A variable of a playbook has a value that the playbook does not accept, such as `ture`.",
        fix="Pass a value that the message lists.",
    ),
    DeclaredMessage(
        id="no-host-selected",
        area=Area.COMMAND_LINE,
        meaning="The playbook selects no host of the required group or site. Nothing was done.",
        fix="Change or omit `--limit`. If the group is empty, add a host to the group in the inventory.",
    ),
    DeclaredMessage(
        id="option-required",
        area=Area.COMMAND_LINE,
        meaning="An option has no effect without another option, or a required option is missing.",
        fix="Add the option in the message.",
    ),
    DeclaredMessage(
        id="option-conflict",
        area=Area.COMMAND_LINE,
        meaning="Two options contradict each other.",
        fix="Remove one of the two options.",
    ),
    DeclaredMessage(
        id="config-file-unreadable",
        area=Area.COMMAND_LINE,
        meaning="The file of `--config` does not exist, cannot be read, or is not UTF-8.",
        fix="Check the path, and run the command as a user with read access to the file.",
    ),
    DeclaredMessage(
        id="config-file-invalid",
        area=Area.COMMAND_LINE,
        meaning="The file of `--config` is not valid YAML, or does not map options to values.",
        fix="Write one `option: value` on each line.",
    ),
    DeclaredMessage(
        id="config-option-unknown",
        area=Area.COMMAND_LINE,
        meaning="The file of `--config` has a key that is not a long option of the verb.",
        fix=(
            "Correct the key. `aqueduct VERB --help` lists the options. Write an option without the "
            "leading `--`."
        ),
    ),
    DeclaredMessage(
        id="config-option-repeated",
        area=Area.COMMAND_LINE,
        meaning="The file of `--config` contains a key twice.",
        fix="Remove one of the lines. For several values, write a list.",
    ),
    DeclaredMessage(
        id="config-value-invalid",
        area=Area.COMMAND_LINE,
        meaning="A value in the file of `--config` cannot be used.",
        fix="Correct the value in the line that the message shows.",
    ),
    DeclaredMessage(
        id="time-window-empty",
        area=Area.COMMAND_LINE,
        meaning="`--from-time` is later than `--to-time`, so the time range contains no records.",
        fix="Exchange the two times.",
    ),
    DeclaredMessage(
        id="topic-name-invalid",
        area=Area.COMMAND_LINE,
        meaning="A name in `--topics` is not a Kafka topic name.",
        fix="Write topic names separated by commas. For another name at the target, write `source:target`.",
    ),
    DeclaredMessage(
        id="topic-listed-twice",
        area=Area.COMMAND_LINE,
        meaning="`--topics` lists a topic twice, or lists two topics with the same target topic.",
        fix="List each topic once.",
    ),
    DeclaredMessage(
        id="topic-unknown",
        area=Area.COMMAND_LINE,
        meaning="The cluster has no topic with this name, or the client may not describe the topic.",
        fix="Check the name, and the rights of the client.",
    ),
    DeclaredMessage(
        id="pattern-invalid",
        area=Area.COMMAND_LINE,
        meaning="A regular expression does not compile.",
        fix=(
            "Correct the pattern. Patterns of options are Python regular expressions. Patterns of flows and "
            "connectors are Java regular expressions."
        ),
    ),
    DeclaredMessage(
        id="pattern-matches-nothing",
        area=Area.COMMAND_LINE,
        meaning="No name matches the pattern. The pattern must match the whole name.",
        fix="Check the pattern. Use `.*` to match any characters.",
    ),
    DeclaredMessage(
        id="header-matches-nothing",
        area=Area.COMMAND_LINE,
        meaning="No record that was read has the header of `--header`, so no record was compared.",
        fix="Check the name and the value of the header.",
    ),
    DeclaredMessage(
        id="python-package-missing",
        area=Area.COMMAND_LINE,
        meaning="This host lacks a Python package that the verb needs.",
        fix=("Install Aqueduct with the extra in the message, such as `aqueduct-estate[spark]`."),
    ),
    DeclaredMessage(
        id="report-inside-store",
        area=Area.COMMAND_LINE,
        meaning=(
            "The path of the report file is inside the store, where the report could overwrite an object."
        ),
        fix="Pass a path outside the store to `--report`.",
    ),
    DeclaredMessage(
        id="report-not-writable",
        area=Area.COMMAND_LINE,
        meaning="The report file cannot be written.",
        fix="Pass a path in an existing, writable directory to `--report`.",
    ),
    DeclaredMessage(
        id="lock-held",
        area=Area.COMMAND_LINE,
        meaning="Another process uses the same folder or state. Nothing was changed.",
        fix="Wait until the other process has ended, and run the command again.",
    ),
    DeclaredMessage(
        id="folder-of-other-user",
        area=Area.COMMAND_LINE,
        meaning=(
            "Another user can create links in the folder. With such a link, a command of root would "
            "change other files. Nothing was done."
        ),
        fix=(
            "Run the command as the owner of the folder, [in the service's sandbox]"
            "(security.md#run-a-command-as-the-user-of-a-service)."
        ),
    ),
    DeclaredMessage(
        id="lock-file-unusable",
        area=Area.COMMAND_LINE,
        meaning="The lock file, which prevents two processes from using the same folder, cannot be opened.",
        fix="Run the command as the owner of the folder, and mount its disk writable.",
    ),
    DeclaredMessage(
        id="metrics-port-unavailable",
        area=Area.COMMAND_LINE,
        meaning="The port of `--metrics-port` cannot be opened, for example because another process uses it.",
        fix="Choose another port.",
    ),
    DeclaredMessage(
        id="metrics-file-unwritable",
        area=Area.COMMAND_LINE,
        meaning="The file with the metrics cannot be written.",
        fix="Check the path, the free space and the rights of the user.",
    ),
    DeclaredMessage(
        id="archive-name-invalid",
        area=Area.COMMAND_LINE,
        meaning=(
            "Spark unpacks an archive according to its file extension, and the file name of `--out` has "
            "another extension."
        ),
        fix="Pass a name that ends with `.tar.gz`.",
    ),
    DeclaredMessage(
        id="archive-unwritable",
        area=Area.COMMAND_LINE,
        meaning="The archive of the Python environment cannot be written.",
        fix="Check the path, the free space and the rights of the user.",
    ),
    DeclaredMessage(
        id="key-file-invalid",
        area=Area.COMMAND_LINE,
        meaning="The file does not contain a key of the expected kind.",
        fix=(
            "Pass the path of the correct file. Do not create a new key for this: a new key cannot "
            "decrypt earlier data."
        ),
    ),
    DeclaredMessage(
        id="key-file-unreadable",
        area=Area.COMMAND_LINE,
        meaning="A key file cannot be read.",
        fix="Check the path, and run the command as a user with read access to the file.",
    ),
    DeclaredMessage(
        id="key-file-permissions",
        area=Area.COMMAND_LINE,
        meaning="Other users can read a private key file.",
        fix="Run `chmod 0600 FILE`.",
    ),
    DeclaredMessage(
        id="option-count-mismatch",
        area=Area.COMMAND_LINE,
        meaning=(
            "Several files of client properties were passed, but their number is not the number of addresses."
        ),
        fix="Pass one file for all addresses, or one file for each address in the same order.",
    ),
    DeclaredMessage(
        id="file-unreadable",
        area=Area.COMMAND_LINE,
        meaning="A file in an option or a variable does not exist or cannot be read.",
        fix="Check the path, and run the command as a user with read access to the file.",
    ),
    DeclaredMessage(
        id="file-unwritable",
        area=Area.COMMAND_LINE,
        meaning="A file in an option or a setting cannot be written.",
        fix="Check the path, the permissions of its folder and the free space.",
    ),
    DeclaredMessage(
        id="file-content-invalid",
        area=Area.COMMAND_LINE,
        meaning="A file is damaged, or another program wrote it than the command in the message.",
        fix="Run the command in the message again, and pass its output unchanged.",
    ),
    DeclaredMessage(
        id="yaml-invalid",
        area=Area.COMMAND_LINE,
        meaning="A file is not valid YAML.",
        fix="Correct the line that the message shows.",
    ),
    DeclaredMessage(
        id="table-undeclared",
        area=Area.COMMAND_LINE,
        meaning="`--tables` lists a table that the file of `--declarations` does not declare.",
        fix="Correct the name, or declare the table. The message lists the declared tables.",
    ),
    DeclaredMessage(
        id="folder-inside-store",
        area=Area.COMMAND_LINE,
        meaning=(
            "One location of the command is inside another location of the command, for example an export "
            "inside its store."
        ),
        fix="Pass a location that is not inside the other location.",
    ),
)
