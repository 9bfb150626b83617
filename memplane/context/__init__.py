"""What an open plane holds for the rooms that work on it: log, clock, policies, projections."""
