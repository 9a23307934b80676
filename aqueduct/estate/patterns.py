"""Patterns of topic names of MirrorMaker 2: Java regular expressions that must match a whole name.

`language` returns the set of names that a pattern matches, or None if only Java can determine it:
look-around, back-references, possessive quantifiers, flags, nested character classes. It raises PatternError
for a pattern that `java.util.regex.Pattern` certainly refuses.
"""

import re
import string
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache

from aqueduct.common.topic_names import LEGAL_NAME
from aqueduct.estate.languages import (
    ALPHABET,
    EMPTY_NAME,
    EVERYTHING,
    NOTHING,
    Language,
    characters,
    repeat,
    words,
)

LONGEST_NAME = 249

_WORD = string.ascii_letters + string.digits + "_"
_CLASSES = {"d": string.digits, "w": _WORD, "s": "", "h": "", "v": ""}
_PROPERTIES = {
    **dict.fromkeys(("Lower", "Ll", "IsLl", "javaLowerCase"), string.ascii_lowercase),
    **dict.fromkeys(("Upper", "Lu", "IsLu", "javaUpperCase"), string.ascii_uppercase),
    **dict.fromkeys(("Alpha", "L", "IsL", "IsAlphabetic"), string.ascii_letters),
    **dict.fromkeys(("Digit", "N", "Nd", "IsDigit"), string.digits),
    "Alnum": string.ascii_letters + string.digits,
    "Punct": "._-",
    "ASCII": ALPHABET,
}


class PatternError(ValueError):
    """The error of a pattern that does not compile. Its text is the reason, without a full stop."""


class _Beyond(Exception):
    """Raised for a construct that Java may accept, but that this parser does not support."""


@cache
def language(pattern: str) -> Language | None:
    """Return the names that `pattern` matches; None if this cannot be determined. Raises PatternError.

    A pattern that is a legal name matches only this name, with literal dots, as the ACLs of the mirror assume
    (`aqueduct.estate.acls`).
    """
    if LEGAL_NAME.fullmatch(pattern):
        return words([pattern])
    try:
        return _PatternParser(pattern).parse()
    except _Beyond:
        return None


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that returns whether a whole name matches. Raises PatternError.

    Python's expressions are used for a pattern that `language` does not support.
    """
    names = language(pattern)
    if names is not None:
        return names.__contains__
    try:
        whole = re.compile(pattern)  # a pattern beyond regular languages
    except re.error as error:
        raise PatternError(str(error)) from None
    return lambda name: whole.fullmatch(name) is not None


def may_match(pattern: str, name: str) -> bool:
    """Return whether a Java pattern of MirrorMaker may match a whole name; True if it is not certain."""
    try:
        names = language(pattern)
        return names is None or name in names or re.fullmatch(pattern, name) is not None
    except (PatternError, re.error):
        return True


def surely_matches(pattern: str, name: str) -> bool:
    try:
        names = language(pattern)
    except PatternError:
        return False
    return names is not None and name in names


def unmatched(patterns: Iterable[str], names: Collection[str]) -> list[str]:
    """Return the patterns that match none of these names. Raises PatternError like `matcher`."""
    return [pattern for pattern in patterns if not any(map(matcher(pattern), names))]


class _PatternParser:
    """A recursive-descent parser of the regular part of Java's pattern syntax."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def parse(self) -> Language:
        language = self.alternatives()
        if self.at < len(self.text):
            raise PatternError("a closing parenthesis has no opening one")
        return language

    def peek(self, expected: str) -> bool:
        return self.text.startswith(expected, self.at)

    def take(self, expected: str) -> bool:
        is_next = self.peek(expected)
        self.at += len(expected) * is_next
        return is_next

    def match(self, regex: str) -> re.Match[str] | None:
        match = re.compile(regex).match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def alternatives(self) -> Language:
        language = self.sequence()
        while self.take("|"):
            language |= self.sequence()
        return language

    def sequence(self) -> Language:
        language = EMPTY_NAME
        while self.at < len(self.text) and not self.peek("|") and not self.peek(")"):
            language += self.quantified(self.atom())
        return language

    def quantified(self, language: Language) -> Language:
        if self.take("*"):
            language = repeat(language)
        elif self.take("+"):
            language += repeat(language)
        elif self.take("?"):
            language |= EMPTY_NAME
        elif not self.peek("{"):
            return language
        while counted := self.match(r"\{(\d+)(,?)(\d*)\}"):
            least = int(counted[1])
            most = least if not counted[2] else int(counted[3]) if counted[3] else None
            if most is not None and most < least:
                raise PatternError(f"the maximum of the repetition {counted[0]} is less than its minimum")
            language = _times(language, least, most)
        if self.peek("{"):
            raise PatternError("a repetition in braces is not {n}, {n,} or {n,m}")
        if self.take("+"):
            raise _Beyond  # possessive: no backtracking
        self.take("?")  # reluctant: matches the same whole names
        return language

    def atom(self) -> Language:
        character = self.text[self.at]
        self.at += 1
        match character:
            case "(":
                return self.group()
            case "[":
                return self.character_class()
            case "\\":
                return self.escape()
            case ".":
                return characters(ALPHABET)
            case "^" if self.at == 1:
                return EMPTY_NAME
            case "$" if self.at == len(self.text):
                return EMPTY_NAME
            case "*" | "+" | "?":
                raise PatternError(f"{character} has nothing to repeat")
            case "{" if not self.match(r"\d+(,\d*)?\}"):
                raise PatternError("{ has nothing to repeat")
            case "^" | "$" | "{":
                raise _Beyond
        return characters(character)

    def group(self) -> Language:
        if self.take("?") and not self.match(r":|<[a-zA-Z][a-zA-Z0-9]*>"):
            if self.match(r"[=!>]|<[=!]|[idmsuxU]*(-[idmsuxU]*)?[:)]"):
                raise _Beyond
            raise PatternError("Java does not support the text after (?")
        language = self.alternatives()
        if not self.take(")"):
            raise PatternError("an opening parenthesis has no closing one")
        return language

    def escape(self) -> Language:
        if self.at == len(self.text):
            raise PatternError("it ends with a single backslash")
        if self.take("Q"):
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at :] if end < 0 else self.text[self.at : end]
            self.at += len(quoted) + (0 if end < 0 else 2)
            if self.peek("*") or self.peek("+") or self.peek("?") or self.peek("{"):
                raise _Beyond  # the quantifier repeats only the last character
            return words([quoted]) if quoted else EMPTY_NAME
        return characters(self.escaped())

    def escaped(self) -> str:
        """Return the characters that an escape matches."""
        character = self.text[self.at]
        self.at += 1
        if character.lower() in _CLASSES:
            class_members = _CLASSES[character.lower()]
            return class_members if character.islower() else "".join(set(ALPHABET) - set(class_members))
        if character in "pP":
            named = self.match(r"\{(\w+)\}|(\w)")
            if not named or (named[1] or named[2]) not in _PROPERTIES:
                raise _Beyond
            class_members = _PROPERTIES[named[1] or named[2]]
            return class_members if character == "p" else "".join(set(ALPHABET) - set(class_members))
        if character in "xu":
            code = self.match(r"[0-9a-fA-F]{2}" if character == "x" else r"[0-9a-fA-F]{4}")
            if not code:
                raise _Beyond
            return chr(int(code[0], 16))
        if character in "tnrfae":
            return "\t"  # any character that no name contains
        if character in "0123456789bBAzZGXRkNc":
            raise _Beyond
        if character in string.ascii_letters:
            raise PatternError(f"Java does not support the escape \\{character}")
        return character

    def character_class(self) -> Language:
        negated = self.take("^")
        chosen: set[str] = set()
        first = True
        while first or not self.peek("]"):
            if self.at >= len(self.text):
                raise PatternError("an opening square bracket has no closing one")
            if self.peek("[") or self.peek("&&") or self.peek("\\Q"):
                raise _Beyond
            chosen.update(self.class_item())
            first = False
        self.take("]")
        return characters(set(ALPHABET) - chosen if negated else chosen)

    def class_item(self) -> str:
        low = self.class_character()
        if not self.match(r"-(?![\]\[])"):
            return low
        if self.at >= len(self.text):
            raise PatternError("an opening square bracket has no closing one")
        high = self.class_character()
        if len(low) != 1 or len(high) != 1:
            raise _Beyond
        if high < low:
            raise PatternError(f"the end of the range {low}-{high} is less than its start")
        return "".join(character for character in ALPHABET if low <= character <= high)

    def class_character(self) -> str:
        character = self.text[self.at]
        self.at += 1
        if character != "\\":
            return character
        if self.at == len(self.text):
            raise PatternError("it ends with a single backslash")
        return self.escaped()


def _times(language: Language, least: int, most: int | None) -> Language:
    """Return `least` to `most` repetitions of `language`; `most` None: without a limit."""
    if most is None or most > LONGEST_NAME or language.kind == "repeat":
        counted = EMPTY_NAME if most == 0 else repeat(language)
    else:
        counted = EMPTY_NAME
        for _ in range(least, most):
            counted = EMPTY_NAME | language + counted
    for _ in range(min(least, LONGEST_NAME + 1)):
        counted = language + counted
    return counted


def names(include: Sequence[str], exclude: Sequence[str] = ()) -> Language:
    """Return the names that a flow with these patterns mirrors, as far as they can be determined.

    An include pattern that cannot be determined adds no names; such an exclude pattern removes all names.
    """
    # Plain names become one tree, because a union of ten thousand separate names would be slow.
    chosen = words(pattern for pattern in include if LEGAL_NAME.fullmatch(pattern))
    for pattern in include:
        if not LEGAL_NAME.fullmatch(pattern):
            chosen |= language(pattern) or NOTHING
    for pattern in exclude:
        excluded = language(pattern)
        chosen -= EVERYTHING if excluded is None else excluded
    return chosen - EMPTY_NAME
