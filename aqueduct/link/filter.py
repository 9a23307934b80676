"""Ordered rules on a record's value, by which it may not cross. The filter fails closed.

A value that is denied is withheld: the offset stays inside the frame, so it isn't a gap. So is a batch whose
values can't be read, or that takes too much to be opened: its producer may be anybody.
"""

import logging
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import regex

from aqueduct.errors import Refused
from aqueduct.kafka.batches.batch import Batch, Damaged, walk
from aqueduct.kafka.batches.bodies import key_and_value
from aqueduct.kafka.batches.records import Records, build
from aqueduct.link.log_throttle import Seldom
from aqueduct.link.options import Sending
from aqueduct.link.wire.frame import Frame

ALLOW, DENY = "allow", "deny"

log = logging.getLogger(__name__)


class Filter:
    def __init__(
        self, rules: list[tuple[bool, "regex.Pattern[bytes]"]], default: bool, timeout_seconds: float
    ) -> None:
        """`rules`: whether what matches may cross, and its pattern; the first that matches wins."""
        self._rules = rules
        self._default = default
        self._timeout = timeout_seconds
        self._seldom = Seldom()
        self.withheld = self.timeouts = self.unread = 0

    @classmethod
    def of(cls, settings: Sending) -> "Filter":
        """Make the filter of these settings; Refused at a rule that isn't one."""
        rules = _parse(settings.input_filter_rules or "")
        return cls(rules, settings.input_filter_default_action == ALLOW, settings.input_filter_timeout / 1000)

    def apply(self, frame: Frame) -> Frame:
        """Return the same range, with what may cross."""
        if not self._rules and self._default:
            return frame
        kept = (self._batch(batch, frame) for batch in walk(frame.batches, check_crc=False))
        return replace(frame, batches=b"".join(kept))

    def _batch(self, batch: Batch, frame: Frame) -> bytes:
        try:
            records = Records.of([batch])
            values = [key_and_value(body)[1] or b"" for body in records.bodies]
        except (Damaged, IndexError, ValueError) as error:
            self._withhold_unread(batch, frame, error)
            return b""
        allowed = [self._allowed(value) for value in values]
        self.withheld += len(allowed) - sum(allowed)
        if all(allowed):
            return batch.data.tobytes()
        if not any(allowed):
            return b""
        return bytes(build(records.where(np.array(allowed)), codec=batch.codec, attributes=batch.attributes))

    def _withhold_unread(self, batch: Batch, frame: Frame, error: Exception) -> None:
        self.unread += 1
        self.withheld += batch.count
        if times := self._seldom.due((frame.topic, frame.partition), 1, time.monotonic()):
            log.error(
                "%s-%d: offsets %d to %d are not sent, because the filter cannot read them: %s (%d times "
                "since the last report). Find out which client produces these records",
                frame.topic, frame.partition, batch.base_offset, batch.last_offset, error, times,
            )  # fmt: skip

    def _allowed(self, value: bytes) -> bool:
        for allow, pattern in self._rules:
            try:
                if pattern.search(value, timeout=self._timeout):
                    return allow
            except TimeoutError:
                self.timeouts += 1
                return False
        return self._default


def _parse(text: str) -> list[tuple[bool, "regex.Pattern[bytes]"]]:
    """Parse `allow:REGEX,deny:REGEX`, or the lines of a file of that name."""
    if not text.startswith((f"{ALLOW}:", f"{DENY}:")) and text:
        try:
            lines = [line.strip() for line in Path(text).read_text().splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(
                "filter-rules-invalid",
                f"inputFilterRules {text!r} is neither a list of rules (allow:REGEX,deny:REGEX) nor a "
                f"readable file: {getattr(error, 'strerror', None) or error}.",
            ) from None
        rules = [line for line in lines if line and not line.startswith("#")]
    else:
        rules = _split(text)
    return [_rule(rule) for rule in rules]


def _split(text: str) -> list[str]:
    """Split rules at the commas outside brackets where another rule begins."""
    rules, depth, start, escaped = [], 0, 0, False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth <= 0:
            rules.append(text[start:index])
            start = index + 1
    return [rule.strip() for rule in [*rules, text[start:]] if rule.strip()]


def _rule(text: str) -> tuple[bool, "regex.Pattern[bytes]"]:
    action, colon, pattern = text.partition(":")
    if action not in (ALLOW, DENY) or not colon:
        raise Refused(
            "filter-rules-invalid",
            f"inputFilterRules: {text!r} is not a rule; write allow:REGEX or deny:REGEX.",
        )
    try:
        return action == ALLOW, regex.compile(pattern.encode())
    except regex.error as error:
        raise Refused(
            "filter-rules-invalid", f"inputFilterRules: {pattern!r} is not a regular expression: {error}."
        ) from None
