"""`python -m qdbg` is the `qdbg` command."""

from qdbg.cli import main

if __name__ == "__main__":
    main()
