"""The quantizer: samples and their doctor, thresholds, integer weights, the calibrated and the integer model."""
