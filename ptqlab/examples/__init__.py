"""Ready-made examples that need no download: each is a trained network with its calibration samples."""
