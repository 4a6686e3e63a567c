"""`python -m livedex`: the command line."""

from livedex.cli.main import main

main()
