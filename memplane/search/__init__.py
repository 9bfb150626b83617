"""The index of a plane: kept up with the log, masked for a reader, asked by searches and packs."""
