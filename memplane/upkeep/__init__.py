"""Keeping a plane in order: verify, rebuild, audit, purge, export, restore, reports."""
