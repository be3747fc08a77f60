"""The command line: one argparse tree, shared with the notebook magics."""
