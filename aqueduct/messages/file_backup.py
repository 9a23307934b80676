"""Messages about backups of folders of hosts."""

from aqueduct.messages.message import Area, DeclaredMessage

FILE_BACKUP = (
    DeclaredMessage(
        id="rsync-missing",
        area=Area.FILE_BACKUP,
        meaning="This host does not have rsync.",
        fix="Install the package `rsync`.",
    ),
    DeclaredMessage(
        id="rsync-failed",
        area=Area.FILE_BACKUP,
        meaning="Rsync could not read the folder of the host, or SSH could not connect to the host.",
        fix="Correct the cause in the message, and run the command again.",
    ),
    DeclaredMessage(
        id="source-folder-unreadable",
        area=Area.FILE_BACKUP,
        meaning="The user of the backup has no right to read the folder. No file of this backup was kept.",
        fix="Give the user the right to read the folder.",
    ),
    DeclaredMessage(
        id="source-folder-empty",
        area=Area.FILE_BACKUP,
        meaning="The folder is empty, but the previous backup contains files. Nothing was kept.",
        fix="Mount the disk of the folder. If all files were removed on purpose, pass `--allow-empty`.",
    ),
    DeclaredMessage(
        id="source-folder-changed",
        area=Area.FILE_BACKUP,
        meaning="The existing backups with this name contain another folder. Nothing was kept.",
        fix="Pass another name with `--name`. If the folder was moved, pass `--source-moved` once.",
    ),
    DeclaredMessage(
        id="backup-folder-overlap",
        area=Area.FILE_BACKUP,
        meaning=(
            "The folder of the backups is inside the backed-up folder, or the backed-up folder is inside "
            "the folder of the backups."
        ),
        fix="Keep backups on another disk.",
    ),
    DeclaredMessage(
        id="kafka-data-in-source",
        area=Area.FILE_BACKUP,
        meaning=(
            "The folder contains the data folder of a Kafka node that may run. A copy of the files of a "
            "running node is not consistent."
        ),
        fix="Exclude the data folder with `--exclude`. Back up topics with `aqueduct backup`.",
    ),
    DeclaredMessage(
        id="backup-key-unrestricted",
        area=Area.FILE_BACKUP,
        meaning="The SSH key of the backup has more rights on the host than the right to read the folder.",
        fix="Restrict the key in `authorized_keys` as the message shows.",
    ),
    DeclaredMessage(
        id="backup-key-other-folder",
        area=Area.FILE_BACKUP,
        meaning="The SSH key of the backup gives access to another folder than the backed-up one.",
        fix="Pass the folder to which the key gives access, or use a separate key for each folder.",
    ),
    DeclaredMessage(
        id="clock-behind-backup",
        area=Area.FILE_BACKUP,
        meaning="The time of the newest backup is later than the time of this host.",
        fix=(
            "Set the clock of this host. If the clock is correct, rename the folder of the newest backup to "
            "the time of that backup."
        ),
    ),
    DeclaredMessage(
        id="backup-folder-unreadable",
        area=Area.FILE_BACKUP,
        meaning="The folder of the backups, or a file in it, cannot be read.",
        fix=(
            "Pass the folder of the backups, and run the command as root or as the user that created "
            "the backups."
        ),
    ),
    DeclaredMessage(
        id="backup-folder-unwritable",
        area=Area.FILE_BACKUP,
        meaning=(
            "A folder or a file of the backups cannot be created, written or removed. The backup was not "
            "kept."
        ),
        fix=(
            "Mount the disk writable, check its free space, and run the command as the owner of the folder."
        ),
    ),
    DeclaredMessage(
        id="file-backup-missing",
        area=Area.FILE_BACKUP,
        meaning=(
            "The folder contains no backups, no backup with this name, or no backup that is as old as "
            "`--at` requires."
        ),
        fix="Check the folder, the name and the time. `aqueduct files list` lists the backups.",
    ),
    DeclaredMessage(
        id="file-backup-damaged",
        area=Area.FILE_BACKUP,
        meaning="Files of a backup were changed after the backup.",
        fix=(
            "Copy the files from a copy of the backups, or use the backup of another date. `aqueduct files "
            "verify` lists the damaged files."
        ),
    ),
    DeclaredMessage(
        id="path-not-in-backup",
        area=Area.FILE_BACKUP,
        meaning="The backup does not contain a requested path.",
        fix="Write paths relative to the backed-up folder, or pass the date of another backup.",
    ),
    DeclaredMessage(
        id="restore-folder-unusable",
        area=Area.FILE_BACKUP,
        meaning="The target folder is inside the backups, is not a folder, or cannot be opened or created.",
        fix="Pass another folder, or correct the permissions of the folder.",
    ),
    DeclaredMessage(
        id="restore-folder-link",
        area=Area.FILE_BACKUP,
        meaning=(
            "The command runs as root, and the target path contains a symbolic link that another user may "
            "have created. With this link, the command could write to any folder. Nothing was restored."
        ),
        fix="Pass the path of the folder without symbolic links.",
    ),
    DeclaredMessage(
        id="restore-folder-not-empty",
        area=Area.FILE_BACKUP,
        meaning="The target contains files or folders that differ from the backup. Nothing was restored.",
        fix=(
            "Restore to another folder. With `--overwrite`, the files of the backup replace the files of "
            "the target."
        ),
    ),
    DeclaredMessage(
        id="folder-blocks-file",
        area=Area.FILE_BACKUP,
        meaning=(
            "The target contains a folder with files at a path where the backup contains a file. Nothing "
            "was restored."
        ),
        fix="Move the folder to another path, or restore to another folder.",
    ),
    DeclaredMessage(
        id="file-restore-failed",
        area=Area.FILE_BACKUP,
        meaning="Rsync did not write all files of the backup.",
        fix=(
            "Correct the cause in the message. Then run the command again, with `--overwrite` if "
            "the message contains this option."
        ),
    ),
    DeclaredMessage(
        id="restored-files-differ",
        area=Area.FILE_BACKUP,
        meaning="After the restore, files of the target differ from the backup.",
        fix=(
            "Check that the file system supports owners, modes and extended attributes, and that no program "
            "writes to the target."
        ),
    ),
)
