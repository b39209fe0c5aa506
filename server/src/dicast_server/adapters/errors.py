"""Why an adapter is not served or not written."""


class AdapterRefused(Exception):
    """An adapter must not be served; the text is one sentence that says why.

    It is shown to callers, so that it names files and models but never a folder.
    """


class AdapterFileError(AdapterRefused):
    """A folder holds no adapter that can be used, or none can be written there."""
