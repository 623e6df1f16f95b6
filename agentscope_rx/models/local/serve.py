"""The server process: reads its configuration as one line of JSON, prints its address, ends when stdin closes.

It is run as a file and imports nothing of this library. It is a separate process because the runtime hangs or crashes
if it is shut down during a request. Its stdin is a pipe from the parent, so it ends with the parent.
"""

import json
import os
import signal
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """Serve on loopback until the input ends."""
    # Ctrl-C in the terminal is for the parent process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = json.loads(sys.stdin.readline())
    announce, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    # keep the runtime's messages out of the program's output
    os.dup2(nowhere, 1)
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path, params.api_keys = config["weights"], [config["key"]]
    # the slots share the context; without kv_unified each gets its part
    params.n_ctx, params.n_parallel, params.kv_unified = config["context"], config["parallel"], True
    # more threads than idle cores make it many times slower
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    # no cache of old prompts in addition to the slots
    params.cache_ram_mib = 0
    params.ui = params.endpoint_slots = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    os.write(announce, f"{server.listening_address}\n".encode())
    os.dup2(nowhere, 2)
    sys.stdin.read()
    # without the runtime's destructors: see above
    os._exit(0)


if __name__ == "__main__":
    main()
