"""Rows of one text: counting its tokens, looking for secrets in it."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

import workload
from measure import Peer, Work, seconds, times

from memplane.intake import Redactor

if TYPE_CHECKING:
    from place import Place

__all__ = ["counting_again", "counting_new", "exact", "redacting", "redacting_suspects"]

_MICRO: Final = 1e6


def exact(place: Place, runs: int, *, new: bool) -> list[Peer]:
    """The exact count of the same texts, where it is installed."""
    try:
        from rs_bpe.bpe import openai  # noqa: PLC0415 - an extra; without it there is no peer
    except ImportError:
        return []
    encoding = openai.o200k_base()
    same = place.text()
    return [Peer("rs-bpe, o200k alone", lambda: [
        seconds(partial(encoding.count, text)) * _MICRO
        for text in [place.text() if new else same for _ in range(runs)]])]  # fmt: skip


def counting_new(place: Place, runs: int) -> Work:
    """bound/1 over text not seen before."""
    counter = place.counter

    def sample() -> list[float]:
        texts = [place.text() for _ in range(runs)]
        return [seconds(partial(counter.count, text)) * _MICRO for text in texts]

    return Work("bound/1, 600 new characters", "us", sample, peers=exact(place, runs, new=True))


def counting_again(place: Place, runs: int) -> Work:
    """bound/1 over text seen before."""
    counter, text = place.counter, place.text()
    counter.count(text)
    return Work(
        "bound/1, the same 600 characters again", "us",
        times(lambda: counter.count(text), runs, _MICRO), peers=exact(place, runs, new=False),
    )  # fmt: skip


_PATHS: Final = "src/ledger/token_cache.py sha256:9f86d081884c7d659a2f keyboard monkey passage "


def redacting(place: Place, runs: int) -> Work:
    """What a look for secrets costs where there is none, by KB."""
    redactor, floor = Redactor(()), re.compile("AKIA[0-9A-Z]{16}")

    def sample() -> list[float]:
        texts = [place.text() + workload.text(number)[:424] for number in range(runs)]
        return [seconds(partial(redactor.redact, text)) * _MICRO for text in texts]

    def peer() -> list[float]:
        texts = [place.text() + workload.text(number)[:424] for number in range(runs)]
        return [seconds(partial(floor.sub, "", text)) * _MICRO for text in texts]

    name = "redaction, 1,024 characters, no secret"
    return Work(name, "us", sample, peers=[Peer("one pattern by re alone", peer)])


def redacting_suspects(place: Place, runs: int) -> Work:
    """The same where words look like the beginning of a secret, and are none."""
    redactor = Redactor(())

    def sample() -> list[float]:
        made = [_PATHS * 9 + place.text() for _ in range(runs)]
        return [seconds(partial(redactor.redact, text[:1024])) * _MICRO for text in made]

    return Work("redaction, 1,024 characters of suspects", "us", sample)
