"""Why a model is not served."""


class ModelRefused(Exception):
    """A model cannot be loaded or must not be served; the text is one sentence that says why.

    The text is shown to callers (GetModel, the health reply), so that it names files and models
    but never a folder.
    """
