"""Widgets of a result: the state and the checks in Python, small JavaScript that draws and asks."""
