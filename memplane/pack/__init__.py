"""From candidates to a block: allocate, fit, lay out, render, report. Pure: values in, values out.

Why was this left out? `fit.py` decides by tokens, `layout.py` by place, `recall/suppress.py` by
what the channel may see; each names its reason in the block's omissions.
"""
