"""The command line: one file a group of commands, each a thin layer over the library."""
