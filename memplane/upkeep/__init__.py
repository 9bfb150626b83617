"""Keep a plane in order: verify, rebuild, audit, purge, export, restore, doctor, saved reports."""
