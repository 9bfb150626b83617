"""The index of a plane: kept up with the log, masked for a reader, used by searches and packs."""
