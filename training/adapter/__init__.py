"""Makes the adapter that comes with the embedded model: `python -m training.adapter --help`."""
