"""Visibility, intent and scores: which events a pack may use, and how well each matches. Pure."""
