"""`python -m agentscope_rx` is `agentscope-rx`."""

import sys

from agentscope_rx.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
