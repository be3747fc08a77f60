"""Views of a record as pure functions: frames, figures, html, text. Heavy libraries are imported on use."""
