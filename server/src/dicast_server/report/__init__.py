"""The report of a calibration or an evaluation: a page that a person reads, and its diagrams. No model."""
