"""`python -m benchmarks.knowledge`: see `retrieval`."""

from benchmarks.knowledge.retrieval import main

if __name__ == "__main__":
    main()
