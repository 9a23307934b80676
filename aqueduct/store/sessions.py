"""Sessions of botocore. They run the programs in AWS profiles (credential_process)."""

from typing import TYPE_CHECKING

from aqueduct.common import guarded_files
from aqueduct.errors import Failed

if TYPE_CHECKING:
    from botocore.session import Session

_programs: set[str] = set()  # that profiles named before Spark's JVM started


def new_session() -> "Session":
    """Return a session. Failed if its profiles have a new program since the JVM of Spark started.

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
            f"An AWS profile got a new program after Spark started: credential_process = {min(added)}. Check "
            "this host and the workers of Spark for a compromise, and restore the profile.",
        )
    return session
