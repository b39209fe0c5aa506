"""Adapters as folders: what they say of themselves, and how they are read and written. No arrays here."""
