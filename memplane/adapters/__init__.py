"""Implementations of ports that need an optional package."""
