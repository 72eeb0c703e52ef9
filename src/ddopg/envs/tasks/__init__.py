"""The paper's three tasks: a folder each, with its physics, drawing, thresholds and registration."""
