"""One plane on many machines: a log whose order an engine gives, and folders that are synced."""
