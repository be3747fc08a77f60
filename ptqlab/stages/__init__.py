"""The frozen values that one stage of a run hands to the next; each verifies itself when it is made."""
