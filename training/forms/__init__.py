"""Forms of questions: one file for each part of a domain that they ask about."""
