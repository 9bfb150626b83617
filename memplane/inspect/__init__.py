"""The memory as a page: one file with its data, styles and script inside, for one channel.

A page needs no server, no network and no framework. `compose` builds its data from what a plane
says anyway (packs, lists, reports, checks), `document` makes the file, `figures` the pages of
reports, and `LiveServer` serves the same page on loopback. Nothing here writes the log, but for the
three actions of a live page.
"""

from memplane.inspect.page import LiveServer, PageRequest, compose, document, write_page

__all__ = ["LiveServer", "PageRequest", "compose", "document", "write_page"]
