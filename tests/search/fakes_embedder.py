"""A small embedder of its own kind: texts of the same letters are alike, whatever their words."""

from collections import Counter

from memplane.index.vectors import signed_bytes

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


class Anagrams:
    """Counts letters and digits; remembers which texts it was given."""

    dimension = len(ALPHABET)

    def __init__(self, name="anagrams/1"):
        self.name = name
        self.given = []

    def embed(self, texts):
        self.given += texts
        counts = [Counter(text.lower()) for text in texts]
        return [signed_bytes([count[one] for one in ALPHABET]) for count in counts]
