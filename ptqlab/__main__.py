"""`python -m ptqlab` is the command line."""
import sys

from ptqlab.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
