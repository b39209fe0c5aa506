"""The messages and stubs of proto package dicast.v1, generated: see `make gen`."""
