"""The server's process: reads its configuration as one line of JSON, says where it listens, ends when its input does.

Run as a file; imports nothing of this library. A process of its own, because the runtime hangs or crashes when it is
torn down with a request in flight. Its input is a pipe that the parent holds: so it ends with the parent.
"""

import json
import os
import signal
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """Serve on loopback until the input ends."""
    # an interrupt at the terminal is meant for the program that started this one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = json.loads(sys.stdin.readline())
    announce, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    # what the runtime prints is not for the program's output
    os.dup2(nowhere, 1)
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path, params.api_keys = config["weights"], [config["key"]]
    # the slots share the context; without kv_unified each gets its part
    params.n_ctx, params.n_parallel, params.kv_unified = config["context"], config["parallel"], True
    # with more threads than idle cores it is many times slower
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    # no copies of old prompts beside the slots' own
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
