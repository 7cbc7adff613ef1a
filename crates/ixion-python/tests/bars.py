"""Progress bars by the conventions of tqdm, which remember what they were told."""

from __future__ import annotations


class Bar:
    """What is called with ``update`` and ``close``."""

    def __init__(self, total: int):
        self.total, self.count, self.is_closed = total, 0, False

    def update(self, by: int) -> None:
        self.count += by

    def close(self) -> None:
        self.is_closed = True

    def is_complete(self) -> bool:
        return self.is_closed and self.count == self.total > 0


class Bars(list[Bar]):
    """Makes bars: the value of an option ``progress``."""

    def __call__(self, total: int) -> Bar:
        self.append(Bar(total))
        return self[-1]

    def only(self) -> Bar:
        bar, = self
        return bar
