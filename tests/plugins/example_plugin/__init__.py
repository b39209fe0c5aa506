"""An example of a plugin for dicast."""
