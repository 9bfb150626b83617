"""Artifacts: files beside the log that are added, approved, quoted and exported."""
