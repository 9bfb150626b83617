"""What takes a whole plane to tell: packs made again, why an event was in one, what a policy does.

`replay` makes a saved pack again, `why` tells the story of one event in it, `history` says what
changed in the policies and `trying` what a change would do to packs that were asked for.
"""
