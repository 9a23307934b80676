"""The blocks of a session that are done, so that each passes once, whatever is sent again."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class BlockSpan(NamedTuple):
    """Numbers of blocks, both ends inclusive."""

    first: int
    last: int


class BlockWindow:
    """The window of blocks: those below `floor` are done, complete or lost; above it, `size` are tracked."""

    def __init__(self, size: int, floor: int, finished: Iterable[BlockSpan] = ()) -> None:
        self._size = size
        self._done: set[int] = set()
        self.floor = floor
        self.top = floor  # the number after the highest that is known of
        for first, last in finished:
            self.reach(last)
            for number in range(max(first, self.floor), last + 1):
                self.finish(number)

    def __contains__(self, number: int) -> bool:
        """Tell whether a number may still come."""
        return number >= self.floor and number not in self._done

    @property
    def missing(self) -> int:
        """Numbers below the top that may still come."""
        return self.top - self.floor - len(self._done)

    def expect(self, top: int) -> None:
        """Note that all numbers below `top` exist."""
        self.top = max(self.top, top)

    def reach(self, number: int) -> int:
        """Note a block seen, authentic; return how many blocks too far below it were lost."""
        self.expect(number + 1)
        return self.pass_by(number + 1 - self._size)

    def finish(self, number: int) -> None:
        """Note a block complete, or given up."""
        self._done.add(number)
        while self.floor in self._done:
            self._done.remove(self.floor)
            self.floor += 1

    def pass_by(self, floor: int) -> int:
        """Accept nothing below `floor` from now on; return how many blocks never came."""
        if floor <= self.floor:
            return 0
        passed = {number for number in self._done if number < floor}
        lost = floor - self.floor - len(passed)
        self._done -= passed
        self.floor = floor
        self.expect(floor)
        while self.floor in self._done:
            self._done.remove(self.floor)
            self.floor += 1
        return lost

    def done(self) -> Iterator[BlockSpan]:
        """Yield the blocks above the floor that are done, as spans."""
        first = last = -1
        for number in sorted(self._done):
            if number != last + 1:
                if last >= 0:
                    yield BlockSpan(first, last)
                first = number
            last = number
        if last >= 0:
            yield BlockSpan(first, last)
