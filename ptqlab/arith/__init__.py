"""Number formats, rounding, requantization and metrics: pure numpy, no graph, no files."""
