"""Who does the work, and where results stay between runs."""
from ptqlab.workers.executors import opened
from ptqlab.workers.stores import FolderStore, Layers, MemoryStore, session_store

__all__ = ["FolderStore", "Layers", "MemoryStore", "opened", "session_store"]
