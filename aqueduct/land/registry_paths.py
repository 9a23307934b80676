"""The paths that an estate's schema registry serves, for its settings and for landings that ask it."""

import re

API = "/apis/ccompat/v7"  # Confluent's REST API, of its version 7
# Paths that Apicurio does not serve, as regular expressions of Java that match whole paths, undecoded. Its
# permissions compare a path before parameters (`;x`) are removed and before it is decoded: a path that they
# permit by its beginning must have no other reading. The expressions have no comma, which separates them, and
# no backslash or dollar sign, which have a meaning in files of properties.
DENIED_PATHS = (
    f"(?s)(?!{API}/|/health/).*",
    "(?s).*[^A-Za-z0-9/._~:@!-+=-].*",  # parameters, and most of what belongs in no path
    "(?s).*%(?![2-9A-Fa-f][0-9A-Fa-f]).*",  # control characters, and no encoding at all
    "(?is).*%(?:2[5e]|3b|5c|7f).*",  # encoded: percent sign, dot, semicolon, backslash
    # A slash may be encoded, for subjects have some (`google/protobuf/any.proto`): it leads nowhere else.
    "(?is).*(?:/|%2f)[.][.]?(?:(?:/|%2f).*)?",
    "(?is).*(?:/|%2f)(?:/|%2f).*",
)


def is_denied(path: str) -> bool:
    """Return whether an estate's registry does not serve a path below its API, and so has nothing there."""
    return path.startswith(f"{API}/") and any(re.fullmatch(rule, path) for rule in DENIED_PATHS)
