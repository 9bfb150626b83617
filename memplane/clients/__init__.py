"""Memplane in the settings of coding agents: put in, and taken out again as if never there.

`agents` says what each agent runs and where its settings lie; `jsontext` and `tomltext` change
files of other people as text; `hooks` and `servers` say what ours is in them; `files` reads and
replaces them; `traces` remembers what an install did besides; `install` does it.
"""
