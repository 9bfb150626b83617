"""The memory as a page: one file with its data, styles and script inside, for one channel.

A page needs no server, no network and no framework. `compose` builds its data from what a plane
says anyway (packs, lists, reports, checks), `page.document` makes the file, `figures` the pages of
reports, and `live` serves the same page on loopback. Nothing here writes the log, but for the three
actions of a live page.
"""

from memplane.inspect.compose import PageRequest, compose
from memplane.inspect.live import LiveServer
from memplane.inspect.page import document, write_page

__all__ = ["LiveServer", "PageRequest", "compose", "document", "write_page"]
