"""`python -m localspec` is the `localspec` command."""

from localspec.cli.main import main

if __name__ == "__main__":
    main()
