"""Files beside the log: added, approved, quoted, exported."""
