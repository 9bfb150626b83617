"""What memplane knows, folded from the log: caches that can be rebuilt at any time."""
