"""From candidates to a block: divide the budget, place entries, render, report. Pure functions.

In: a `Request` and its `Materials` (`request.py`). Out: a `Block` (`block.py`). `pack.py` walks a
table of sections; `head.py` places areas A and B, `window.py` C, D and F, `evidence.py` E and the
evidence of the tail, `tail.py` the rest of the tail. Every entry passes through
the `Sheet` of `layout.py`.

Why was this left out? `recall/suppress.py` decides by what the reader may see, `Sheet.offer` by
tokens, `evidence.py` by relevance; each names its reason in the block's omissions.
"""
