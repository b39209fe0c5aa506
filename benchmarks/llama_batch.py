"""llama.cpp's batch API behind lines of JSON; a child of engine.py.

    python llama_batch.py MODEL.gguf THREADS      with llama-cpp-python's package `llama_cpp` on the path

A line holds the token ids of a request's prompts. What they begin with is decoded once and kept for the
next request, all tails go into one batch; the reply is how many prompts gave finite logits.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
from collections.abc import Sequence
from typing import Any

SEQUENCES = 33
CONTEXT = 8192
BATCH = 2048


class Batches:
    """One context of llama.cpp, and the tokens that its first sequence holds."""

    def __init__(self, model: str, threads: int) -> None:
        import llama_cpp

        self.api: Any = llama_cpp
        self.api.llama_backend_init()
        loaded = self.api.llama_model_load_from_file(model.encode(), self.api.llama_model_default_params())
        settings = self.api.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = CONTEXT, BATCH, 512
        settings.n_seq_max, settings.kv_unified = SEQUENCES, True
        settings.n_threads = settings.n_threads_batch = threads
        self.context = self.api.llama_init_from_model(loaded, settings)
        self.memory = self.api.llama_get_memory(self.context)
        self.batch = self.api.llama_batch_init(BATCH, 0, SEQUENCES)
        self.kept: Sequence[int] = ()

    def answer(self, prompts: Sequence[Sequence[int]]) -> int:
        """Read prompts: how many gave finite logits at their end."""
        shared = min(common(prompts[0], prompt) for prompt in prompts)
        shared = min(shared, *(len(prompt) - 1 for prompt in prompts))
        start = min(common(self.kept, prompts[0]), shared)
        self.api.llama_memory_seq_rm(self.memory, 0, start, -1)
        head = prompts[0][:shared]
        self.decode([(token, start + place, 0, False) for place, token in enumerate(head[start:])])
        self.kept = head
        tails, ends = [], []
        for sequence, prompt in enumerate(prompts, 1):
            self.api.llama_memory_seq_cp(self.memory, 0, sequence, 0, shared)
            last = len(prompt) - 1
            tails += [(prompt[at], at, sequence, at == last) for at in range(shared, len(prompt))]
            ends.append(len(tails) - 1)
        assert len(tails) <= BATCH, "more tails than a batch holds"
        self.decode(tails)
        read = sum(self.finite(end) for end in ends)
        for sequence in range(1, len(prompts) + 1):
            self.api.llama_memory_seq_rm(self.memory, sequence, 0, -1)
        return read

    def decode(self, tokens: Sequence[tuple[int, int, int, bool]]) -> None:
        """Run tokens: each with its position, its sequence, and whether its logits are wanted."""
        for start in range(0, len(tokens), BATCH):
            piece = tokens[start : start + BATCH]
            self.batch.n_tokens = len(piece)
            for place, (token, position, sequence, wanted) in enumerate(piece):
                self.batch.token[place], self.batch.pos[place] = token, position
                self.batch.n_seq_id[place], self.batch.seq_id[place][0] = 1, sequence
                self.batch.logits[place] = wanted
            assert self.api.llama_decode(self.context, self.batch) == 0

    def finite(self, place: int) -> bool:
        """Whether a place of the last batch has logits."""
        logits = ctypes.cast(
            self.api.llama_get_logits_ith(self.context, place), ctypes.POINTER(ctypes.c_float)
        )
        return math.isfinite(logits[0])


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two prompts begin with in common."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def main() -> None:
    """Answer lines until there are no more."""
    batches = Batches(sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        print(batches.answer(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
