"""The context of an open plane: log, clock, policies, projections and locks."""
