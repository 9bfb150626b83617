"""The index: documents by relevance. Knows documents, never events.

`terms` turns text into hashed terms, `layout` is the byte format of a segment, `build`,
`merge` and `live` make segments, `lexical` scores them, `store` keeps them in a folder
and `reader` answers from the same files with the standard library alone.
"""
