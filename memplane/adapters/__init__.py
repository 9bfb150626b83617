"""Implementations of ports, and APIs of other SDKs, that need an optional package."""
