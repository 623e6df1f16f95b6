"""The server's process: reads its configuration as one line of JSON, says where it listens, ends when its input does.

It is run as a file by `server.py` and imports nothing of this library. A process of its own, because the runtime does
not survive being torn down with a request in flight: it hangs or crashes, and would take the program's exit with it.
Its input is a pipe that the parent holds, so it ends with the parent, however that ends.

    stdin    {"weights": ..., "key": ..., "context": 8192, "parallel": 2}    then nothing, then the end
    stdout   {"address": "http://127.0.0.1:..."}                             once it listens
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def main() -> None:
    """Serve until the input ends."""
    # an interrupt at the terminal is meant for the program that started this one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = json.loads(sys.stdin.readline())
    announce = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    # what the runtime prints is nobody's output
    os.dup2(nowhere, 1)
    server = start(config)
    announce.write(json.dumps({"address": server.listening_address}) + "\n")
    announce.close()
    os.dup2(nowhere, 2)
    sys.stdin.read()
    # without the runtime's destructors: see above
    os._exit(0)


def start(config: Mapping[str, object]) -> Any:
    """The runtime's server, listening on loopback."""
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = config["weights"]
    params.api_keys = [config["key"]]
    params.n_ctx = config["context"]
    params.n_parallel = config["parallel"]
    # the slots share the context; without this each gets its part
    params.kv_unified = True
    # with more threads than idle cores it is many times slower
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    # no copies of old prompts beside the slots' own
    params.cache_ram_mib = 0
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = -1
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
