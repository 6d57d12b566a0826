"""`python -m odt` is the `odt` command."""

from odt.cli.main import main

if __name__ == "__main__":
    main()
