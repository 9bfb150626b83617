"""One memory on many machines."""
