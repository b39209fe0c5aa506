"""Calibration and evaluation: labelled questions, fits, figures and thresholds. Pure; NumPy, no model."""
