"""The counters that can be made here: those of one encoding need rs-bpe, which not every Python has."""

from importlib.util import find_spec

from memplane.tokens import NAMES

MADE_HERE = NAMES if find_spec("rs_bpe") else ("bound/1", "len4")
