"""`PYTHONPATH=.:tests python -m faults.reliability [--counts FILE]` writes tests/faults/README.md."""

from faults.reliability.page import main

if __name__ == "__main__":
    main()
