"""The index: documents ranked by relevance. It knows documents, never events.

`terms` turns text into hashed terms, `segment` builds and merges segments, `storage` is their byte
format and their folder, `store` is the whole index, `lexical` scores its documents and `ranking`
orders them; `reader` answers from the same files with the standard library alone.
"""
