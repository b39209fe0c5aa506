"""dicast answers typed questions about a text or JSON state with calibrated probabilities."""
