"""Finite or infinite sets of topic names, with union, intersection, difference and a search for a member.

A set is a regular language over the 65 characters of topic names. It is stored as an expression. The
derivative of the expression by a character is the set of the possible continuations after that character
(Brzozowski, Derivatives of Regular Expressions, 1964). With it, the check whether two patterns have a common
name is exact.
"""

import string
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Literal

ALPHABET = string.ascii_lowercase + string.digits + "-_." + string.ascii_uppercase
_INDEX = {character: index for index, character in enumerate(ALPHABET)}
_ALL = (1 << len(ALPHABET)) - 1

NodeKind = Literal["characters", "empty name", "then", "or", "and", "not", "repeat"]


class Language:
    """A set of names. Functions of this module create it, and return one object for equal expressions."""

    __slots__ = ("characters", "first", "has_empty", "kind", "parts")

    def __init__(self, kind: NodeKind, parts: tuple["Language", ...], characters: int) -> None:
        self.kind = kind
        self.parts = parts
        self.characters = characters
        self.has_empty: bool = _has_empty(self)
        # Bits of the characters with which names begin; possibly of more characters, never of fewer.
        self.first: int = _first(self)

    def __contains__(self, name: str) -> bool:
        language = self
        for character in name:
            if character not in _INDEX or language is NOTHING:
                return False
            language = after(language, _INDEX[character])
        return language.has_empty

    def __and__(self, other: "Language") -> "Language":
        if NOTHING in (self, other):
            return NOTHING
        return self if self is other else _make("and", tuple(sorted((self, other), key=id)))

    def __or__(self, other: "Language") -> "Language":
        parts = {part for side in (self, other) for part in (side.parts if side.kind == "or" else (side,))}
        parts.discard(NOTHING)
        if len(parts) > 1:
            return _make("or", tuple(sorted(parts, key=id)))
        return parts.pop() if parts else NOTHING

    def __sub__(self, other: "Language") -> "Language":
        return self if other is NOTHING else self & _make("not", (other,))

    def __add__(self, other: "Language") -> "Language":
        """Return the concatenations of a name of this set and a name of the other."""
        if NOTHING in (self, other):
            return NOTHING
        if self is EMPTY_NAME or other is EMPTY_NAME:
            return other if self is EMPTY_NAME else self
        if self.kind == "then":  # nested to the right, so that equal sequences are one object
            return self.parts[0] + (self.parts[1] + other)
        return _make("then", (self, other))


@cache
def _intern(kind: NodeKind, parts: tuple[Language, ...], characters: int) -> Language:
    return Language(kind, parts, characters)


def _make(kind: NodeKind, parts: tuple[Language, ...] = (), characters: int = 0) -> Language:
    return _intern(kind, parts, characters)


def _has_empty(language: Language) -> bool:
    parts = (part.has_empty for part in language.parts)
    match language.kind:
        case "empty name" | "repeat":
            return True
        case "then" | "and":
            return all(parts)
        case "or":
            return any(parts)
        case "not":
            return not any(parts)
    return False


def _first(language: Language) -> int:
    parts = language.parts
    match language.kind:
        case "then":
            return parts[0].first | (parts[1].first if parts[0].has_empty else 0)
        case "and":
            return parts[0].first & parts[1].first
        case "or":
            bits = 0
            for part in parts:
                bits |= part.first
            return bits
        case "not":
            return _ALL
        case "repeat":
            return parts[0].first
    return language.characters


NOTHING = _make("characters")
EMPTY_NAME = _make("empty name")
ANY_CHARACTER = _make("characters", (), _ALL)


def repeat(language: Language) -> Language:
    """Return the concatenations of any number of names of `language`, including the empty name."""
    if language in (NOTHING, EMPTY_NAME):
        return EMPTY_NAME
    return language if language.kind == "repeat" else _make("repeat", (language,))


EVERYTHING = repeat(ANY_CHARACTER)


def characters(chosen: Iterable[str]) -> Language:
    """Return the names of one of these characters, without characters that topic names cannot have."""
    bits = 0
    for character in chosen:
        if character in _INDEX:
            bits |= 1 << _INDEX[character]
    return _make("characters", (), bits)


def words(names: Iterable[str]) -> Language:
    """Return the set of exactly these names, as a tree by first characters for thousands of names."""
    by_first: dict[str, list[str]] = {}
    for name in set(names):
        by_first.setdefault(name[:1], []).append(name[1:])
    language = NOTHING
    for first, rests in by_first.items():
        language |= characters(first) + words(rests) if first else EMPTY_NAME
    return language


@cache
def after(language: Language, index: int) -> Language:
    """Return the derivative: the possible continuations after the character at `index` of the alphabet."""
    if not language.first >> index & 1:
        return NOTHING
    parts = language.parts
    match language.kind:
        case "characters":
            return EMPTY_NAME
        case "then":
            rest = after(parts[0], index) + parts[1]
            return rest | after(parts[1], index) if parts[0].has_empty else rest
        case "or":
            joined = NOTHING
            for part in parts:
                joined |= after(part, index)
            return joined
        case "and":
            return after(parts[0], index) & after(parts[1], index)
        case "not":
            return EVERYTHING - after(parts[0], index)
        case "repeat":
            return after(parts[0], index) + language
    return NOTHING


MOST_STATES = 10_000  # limit of `shortest`; usual patterns have a few dozen states


def shortest(language: Language) -> str | None:
    """Return a shortest non-empty name of the set; None if there is none within MOST_STATES."""
    seen = {language}
    frontier = [("", language)]
    while frontier and len(seen) < MOST_STATES:
        reached = []
        for name, rest in frontier:
            for index in _bits(rest.first):
                following = after(rest, index)
                if following.has_empty:
                    return name + ALPHABET[index]
                if following is not NOTHING and following not in seen:
                    seen.add(following)
                    reached.append((name + ALPHABET[index], following))
        frontier = reached
    return None


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
