"""Sessions of botocore, which run the programs that profiles of AWS name (credential_process)."""

from typing import TYPE_CHECKING

from aqueduct.common import guarded_files
from aqueduct.errors import Failed

if TYPE_CHECKING:
    from botocore.session import Session

_programs: set[str] = set()  # that profiles named before Spark's JVM started


def new_session() -> "Session":
    """Return a session; Failed if its profiles name a program that they did not name before the JVM started.

    The JVM may be compromised and can write ~/.aws. A program of this process would not be in its sandbox.
    """
    from botocore.session import Session  # it takes half a second

    session = Session()
    profiles = session.full_config.get("profiles", {})  # the session reads the files once
    programs = {text for profile in profiles.values() if (text := profile.get("credential_process"))}
    if not guarded_files.is_running():
        _programs.update(programs)
    elif added := programs - _programs:
        raise Failed(
            "task-file-replaced",
            f"A profile of AWS names a new program, credential_process = {min(added)}, since Spark started. "
            "Check this host and the workers of Spark for a compromise, and restore the profile.",
        )
    return session
