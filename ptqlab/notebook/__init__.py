"""The notebook extension: magics, completion."""
