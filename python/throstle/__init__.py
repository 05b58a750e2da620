"""throstle in Python: functions as stages of a pipeline, and data sets of a pipeline as sequences."""

from .worker import File, Item, Reject, Setup, stage

__all__ = ["File", "Item", "Reject", "Setup", "open", "stage"]


def __getattr__(name):
    # Stages do not need the reader, so it is loaded on first use.
    if name in ("open", "Pipeline", "Dataset", "Blob"):
        from . import reader

        return getattr(reader, name)
    raise AttributeError(f"module `throstle` has no `{name}`")
