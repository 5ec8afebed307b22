"""``python -m relens``."""

from relens.cli import main

if __name__ == "__main__":
    main()
