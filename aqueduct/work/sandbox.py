"""A sandbox for Spark's JVM, which hides the keys of this process from it.

By Spark's design, the JVM deserializes Java objects of executors, so it is not trusted more than executors.
With Landlock (Linux 5.13), the JVM and its child processes cannot read hidden files. They cannot create,
rename or remove files and links in folders above a hidden key, nor in folders of task files below those:
otherwise this process could read a key in the place of another file. They can neither trace this process nor
read its memory.
"""

import ctypes
import os
import stat
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# From linux/landlock.h and linux/prctl.h. The numbers of the system calls are equal on all architectures.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION, RULE_PATH_BENEATH = 1, 1
READ_FILE, REFER = 1 << 2, 1 << 13
REMOVE_DIR, REMOVE_FILE, MAKE_REG, MAKE_SYM = 1 << 4, 1 << 5, 1 << 8, 1 << 12
NAMES = REMOVE_DIR | REMOVE_FILE | MAKE_REG | MAKE_SYM
REFER_VERSION = 2  # of Landlock: the former version forbids to move files to other folders
PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)


class _Rule(ctypes.Structure):
    """The C structure landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def supported() -> bool:
    """Return whether the kernel has Landlock, and this process may use it."""
    return _version() > 0


def _version() -> int:
    return int(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), CREATE_RULESET_VERSION))


def hideable(key: str, scratch: Collection[str]) -> bool:
    """Return whether a key can be hidden without hiding new files in these scratch folders."""
    return not any(Path(key).is_relative_to(os.path.realpath(folder)) for folder in scratch)


def without(keys: Collection[str], start: Callable[[], T], task_files: Collection[str] = ()) -> T:
    """Call a function that starts a process which cannot read `keys`; OSError if the kernel refuses.

    If a key is in a folder above the folder of a task file, the process cannot replace the task file either.

    A Landlock rule applies to a thread and its child processes, so the function runs in its own thread. The
    thread must end: processes with the same rules could trace it, and so read the memory of this process.
    """
    hidden = {os.path.realpath(key) for key in keys}
    sealed = {str(folder) for key in hidden for folder in Path(key).parents}
    folders = {Path(os.path.realpath(file)).parent for file in task_files}
    sealed |= {str(folder) for folder in folders if str(folder.parent) in sealed}

    def restricted() -> T:
        _restrict(hidden, sealed)
        return start()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(restricted).result()


def _restrict(hidden: Collection[str], sealed: Collection[str]) -> None:
    """Forbid this thread to read hidden files, and to create, rename or remove files in sealed folders."""
    change = NAMES | (REFER if _version() >= REFER_VERSION else 0)
    handled = ctypes.c_uint64(READ_FILE | change)
    ruleset = _call(CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(8), 0)
    try:
        for path in _complement("/", hidden):
            _allow(ruleset, path, READ_FILE)
        for path in _complement("/", sealed):
            _allow(ruleset, path, change, folders_alone=True)
        if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
        _call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int, *, folders_alone: bool = False) -> None:
    """Add a rule that allows an access for a file, or for a folder and everything below it."""
    try:
        opened = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # it was removed, or this user has no access to it
        return
    try:
        if folders_alone and not stat.S_ISDIR(os.fstat(opened).st_mode):
            return
        rule = _Rule(access, opened)
        _call(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(opened)


def _complement(folder: str, excepted: Collection[str]) -> Iterator[str]:
    """Yield files and folders that together are all below a folder, without the excepted paths.

    A folder without an excepted path below it is yielded as a whole. An excepted folder is not yielded, but
    its entries are, unless they are excepted, too.
    """
    try:
        entries = [*os.scandir(folder)]
    except OSError:
        return
    for entry in entries:
        if entry.is_symlink():  # a rule for a link would apply to its target
            continue
        if entry.path in excepted:
            if entry.is_dir(follow_symlinks=False):
                yield from _complement(entry.path, excepted)
            continue
        below = [path for path in excepted if path.startswith(f"{entry.path}/")]
        if below:
            yield from _complement(entry.path, below)
        else:
            yield entry.path


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
