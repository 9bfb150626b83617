"""Providers by name."""

import pytest

from memplane import providers
from memplane.acms.storage import InMemoryBackend, SQLiteBackend
from memplane.errors import ConfigurationError
from memplane.providers import HTTPEmbedder


def test_what_memplane_ships_is_found_by_name():
    """A2-69"""
    made = providers.get("embedder", "http", base_url="http://127.0.0.1:1", model="m", dimension=3)
    assert isinstance(made, HTTPEmbedder)
    assert providers.names("reflector") == ("anthropic", "http", "openai")


def test_every_store_that_memplane_ships_is_named_by_a_class_that_exists():
    assert isinstance(providers.get("storage", "memory"), InMemoryBackend)
    assert isinstance(providers.get("storage", "sqlite", path="notes.sqlite"), SQLiteBackend)
    for name in ("chroma", "plane", "postgres"):
        with pytest.raises(TypeError, match="Backend"):  # of the class: what it needs is missing
            providers.get("storage", name)


def test_what_a_program_registers_is_found_until_it_is_taken_back():
    providers.register("reflector", "mine", lambda **given: given)
    try:
        assert providers.get("reflector", "mine", model="m") == {"model": "m"}
        assert "mine" in providers.names("reflector")
        with pytest.raises(ConfigurationError, match="mine"):
            providers.register("reflector", "mine", dict)
    finally:
        providers.unregister("reflector", "mine")
    with pytest.raises(ConfigurationError, match="known: anthropic, http, openai"):
        providers.get("reflector", "mine")
    with pytest.raises(ConfigurationError):
        providers.unregister("reflector", "mine")


def test_a_shipped_name_is_taken_and_an_unknown_kind_refused():
    with pytest.raises(ConfigurationError):
        providers.register("embedder", "http", dict)
    for call in (lambda: providers.get("oracle", "x"), lambda: providers.names("oracle")):
        with pytest.raises(ConfigurationError, match="embedder, reflector, counter, storage"):
            call()
