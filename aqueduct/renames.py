"""Topics that have another name at the other end: `a,b:c` on the command line."""

from aqueduct.errors import Refused
from aqueduct.estate.patterns import LEGAL_NAME


def parse(text: str, prefix: str = "") -> dict[str, str]:
    """Names at the source, sorted, each with that at the target: the one after the colon, or prefix and name.

    Refused where a name is none, or where two topics are one at an end.
    """
    names: dict[str, str] = {}
    for each in text.split(","):
        source, colon, target = each.partition(":")
        target = target if colon else prefix + source
        for name in (source, target):
            if not LEGAL_NAME.fullmatch(name):
                raise Refused(f"{name!r} in --topics is no name of a topic; write a,b or source:target.")
        if source in names or target in names.values():
            raise Refused(f"--topics names {each} twice, or two topics for one target; say it once.")
        names[source] = target
    return dict(sorted(names.items()))
