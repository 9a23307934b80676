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
        meaning="Rsync could not read the folder of the host, or SSH could not connect to it.",
        fix="Correct what the message shows, and run the command again.",
    ),
    DeclaredMessage(
        id="source-folder-unreadable",
        area=Area.FILE_BACKUP,
        meaning="The user of the backup may not read the folder. Nothing of this backup was kept.",
        fix="Give the user the right to read the folder.",
    ),
    DeclaredMessage(
        id="source-folder-empty",
        area=Area.FILE_BACKUP,
        meaning="The folder is empty, and the backup before has files. Nothing was kept.",
        fix="Mount the disk of the folder. If all files were removed on purpose, pass `--allow-empty`.",
    ),
    DeclaredMessage(
        id="source-folder-changed",
        area=Area.FILE_BACKUP,
        meaning="The name has backups of another folder. Nothing was kept.",
        fix="Pass another name with `--name`. If the same folder has moved, pass `--source-moved` once.",
    ),
    DeclaredMessage(
        id="backup-folder-overlap",
        area=Area.FILE_BACKUP,
        meaning="The backups are inside the folder that is backed up, or the reverse.",
        fix="Keep backups on another disk.",
    ),
    DeclaredMessage(
        id="kafka-data-in-source",
        area=Area.FILE_BACKUP,
        meaning=(
            "The folder contains the data folder of a Kafka node that may run. A copy of its files would "
            "not be consistent."
        ),
        fix="Exclude it with `--exclude`. Back up topics with `aqueduct backup`.",
    ),
    DeclaredMessage(
        id="backup-key-unrestricted",
        area=Area.FILE_BACKUP,
        meaning="The SSH key of the backup may do more on the host than read the folder.",
        fix="Restrict the key in `authorized_keys` as the message shows.",
    ),
    DeclaredMessage(
        id="backup-key-other-folder",
        area=Area.FILE_BACKUP,
        meaning="The SSH key of the backup may read another folder than the one that is backed up.",
        fix="Pass the folder that the key may read, or use a key of its own for each folder.",
    ),
    DeclaredMessage(
        id="clock-behind-backup",
        area=Area.FILE_BACKUP,
        meaning="The newest backup is not older than the clock of this host.",
        fix=(
            "Set the clock. If it is right, rename the folder of the newest backup to the time at which it "
            "was made."
        ),
    ),
    DeclaredMessage(
        id="backup-folder-unreadable",
        area=Area.FILE_BACKUP,
        meaning="The folder of the backups, or a file in it, cannot be read.",
        fix="Pass the folder of the backups, and run the command as root or as the user who made them.",
    ),
    DeclaredMessage(
        id="backup-folder-unwritable",
        area=Area.FILE_BACKUP,
        meaning=(
            "A folder or a file of the backups cannot be created, written or removed. The backup was not "
            "kept."
        ),
        fix=(
            "Mount the disk writable, check its free space, and run the command as the user who owns the "
            "folder."
        ),
    ),
    DeclaredMessage(
        id="file-backup-missing",
        area=Area.FILE_BACKUP,
        meaning="The folder has no backups, none of this name, or none as old as `--at` asks for.",
        fix="Check the folder, the name and the time. `aqueduct files list` lists the backups.",
    ),
    DeclaredMessage(
        id="file-backup-damaged",
        area=Area.FILE_BACKUP,
        meaning="Files of a backup are not as they were written.",
        fix=(
            "Copy the files from a copy of the backups, or use another date. `aqueduct files verify` lists "
            "what is damaged."
        ),
    ),
    DeclaredMessage(
        id="path-not-in-backup",
        area=Area.FILE_BACKUP,
        meaning="The backup does not contain a requested path.",
        fix="Write paths relative to the folder that was backed up, or pass another date.",
    ),
    DeclaredMessage(
        id="restore-folder-unusable",
        area=Area.FILE_BACKUP,
        meaning="The target folder is inside the backups, is not a folder, or cannot be opened or created.",
        fix="Pass another folder, or correct its rights.",
    ),
    DeclaredMessage(
        id="restore-folder-link",
        area=Area.FILE_BACKUP,
        meaning=(
            "Root was asked to restore to a path with a symbolic link that another user can have made. The "
            "link could lead root to any folder. Nothing was restored."
        ),
        fix="Pass the path of the folder itself.",
    ),
    DeclaredMessage(
        id="restore-folder-not-empty",
        area=Area.FILE_BACKUP,
        meaning="The target has files or folders that differ from those of the backup. Nothing was restored.",
        fix=(
            "Restore to another folder. With `--overwrite`, the files of the backup replace those of the "
            "target."
        ),
    ),
    DeclaredMessage(
        id="folder-blocks-file",
        area=Area.FILE_BACKUP,
        meaning="The target has a folder with content where the backup has a file. Nothing was restored.",
        fix="Move the folder away, or restore to another folder.",
    ),
    DeclaredMessage(
        id="file-restore-failed",
        area=Area.FILE_BACKUP,
        meaning="Rsync did not write all files of the backup.",
        fix=(
            "Correct what the message shows. Then run the command again, with `--overwrite` if the message "
            "says so."
        ),
    ),
    DeclaredMessage(
        id="restored-files-differ",
        area=Area.FILE_BACKUP,
        meaning="After the restore, files of the target are not as in the backup.",
        fix=(
            "Check that the disk supports owners, modes and attributes, and that no program writes to the "
            "target."
        ),
    ),
)
