"""Makes a model better at labelled questions: low-rank weights beside its own, learned and judged."""
