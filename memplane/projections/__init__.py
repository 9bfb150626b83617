"""Projections: state folded from the log. They are caches, and can be made again at any time."""
