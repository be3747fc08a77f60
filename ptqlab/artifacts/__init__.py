"""Files a run leaves behind: their names, atomic writing, the node tables, the log."""
