"""The command line: one module for each group of commands, all thin layers over the library."""
