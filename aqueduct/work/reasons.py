"""Why Spark's workers can't run our tasks, by what Spark 4.3 says, as a sentence for its user."""

import re

PACK = "`aqueduct environment --out env.tar.gz`"
GIVE = f"give them what {PACK} packs, by --conf spark.archives=env.tar.gz#environment"
OTHER_VERSION = f"Workers have another version of Aqueduct than this host: {GIVE}."
# Braces take what the pattern's groups found. The first pattern that is found is the reason.
SENTENCES = (
    (
        r"aqueduct: (The worker [^\n]+)\.\n",
        "{}. Install that Python there, or pack it (aqueduct environment) on a host like that one.",
    ),
    (
        r'Cannot run program "(\./[^"]+)"',
        f"Workers found no {{}} in an archive of spark.archives: {PACK} makes one that has it; the folder is "
        "what stands behind the # of the archive.",
    ),
    (
        r'Cannot run program "([^"]+)"',
        f"Workers have no {{}}: {GIVE}; or name their own Python, with Aqueduct, in PYSPARK_PYTHON.",
    ),
    (
        r"different version: ([\d.]+) than that in driver: ([\d.]+)",
        f"Workers run Python {{}}, this host {{}}, and they have to be the same: {GIVE}, or name such a "
        "Python of theirs in PYSPARK_PYTHON.",
    ),
    (r"No module named '?aqueduct\.", OTHER_VERSION),
    (r"ImportError: cannot import name '\w+' from 'aqueduct", OTHER_VERSION),
    (r"AttributeError: (?:Can't get attribute '\w+' on <)?module 'aqueduct", OTHER_VERSION),
    (r"No module named '?(\w+)", f"Workers lack the Python package {{}}: {GIVE}."),
    (
        r"(?:gzip|tar): .*?/([^/\s]+\.t(?:ar\.)?gz): ([^\n]+)",
        f"The archive {{}} can't be unpacked ({{}}): pack it again, by {PACK}.",
    ),
    (
        r"(?:gzip|tar): ([^\n]+)",
        f"An archive of spark.archives can't be unpacked ({{}}): pack it again, by {PACK}.",
    ),
)


def reason(said: str) -> str | None:
    """Return why Spark can't run our tasks, if what it said is known."""
    for pattern, sentence in SENTENCES:
        if found := re.search(pattern, said):
            return sentence.format(*found.groups())
    return None
