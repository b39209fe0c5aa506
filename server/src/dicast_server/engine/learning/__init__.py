"""What a model learns from examples: losses of its readings, and their gradients by low-rank weights."""
