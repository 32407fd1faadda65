"""One workload on one device, with a log of its steps. `record.py` starts it beside the recorder.

The log, `steps-<workload>.csv`, has a row for each step: its phase, batch, new tokens of each sequence and
context before them; start and end by the monotonic clock, and the start by the wall's, which the recording has
too; what PyTorch had allocated and reserved then (empty on a CPU); and whether memory ran out.
"""

import argparse
import csv
import itertools
import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path

try:
    import torch
except ImportError:
    print("PyTorch is not installed here, and the workloads are PyTorch's: install it first", file=sys.stderr)
    sys.exit(2)

from models import DECODERS, ENCODERS, DecoderModel, EncoderModel, KeyValues

COLUMNS = [
    "step", "phase", "batch", "tokens", "context", "start_ns", "end_ns", "start_wall_ns",
    "allocated_b", "reserved_b", "fitted",
]
# Steps before those that are logged, in each cell.
WARM_UP = 3
# Rounding of room for keys and values, tokens.
BLOCK = 256
# Tokens that a sequence grows by while it is decoded.
GROWTH = 512


class Bench:
    """A device, a clock, and the log."""

    def __init__(self, arguments, name):
        self.device = torch.device(arguments.device)
        self.cuda = self.device.type == "cuda"
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self.cell_s, self.until_s = arguments.cell_s, None
        self.out = Path(arguments.out)
        self.file = open(self.out / f"steps-{name}.csv", "x", newline="", encoding="utf-8")
        self.log, self.steps = csv.writer(self.file), 0
        self.log.writerow(COLUMNS)

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def memory(self):
        if not self.cuda:
            return "", ""
        return torch.cuda.memory_allocated(self.device), torch.cuda.memory_reserved(self.device)

    def row(self, phase, batch, tokens, context, times, fitted=1):
        self.log.writerow([self.steps, phase, batch, tokens, context, *times, *self.memory(), fitted])
        self.steps += 1

    def cell(self, phase, batch, tokens, contexts, work):
        """Runs a piece of work again and again for a while, on the contexts in turn."""
        begun_ns = None
        for done, context in enumerate(itertools.cycle(contexts)):
            self.wait()
            wall_ns, start_ns = time.time_ns(), time.monotonic_ns()
            work(context)
            self.wait()
            end_ns = time.monotonic_ns()
            if done < WARM_UP:
                continue
            begun_ns = start_ns if begun_ns is None else begun_ns
            self.row(phase, batch, tokens, context, (start_ns, end_ns, wall_ns))
            if end_ns - begun_ns >= self.cell_s * 1e9:
                break

    @contextmanager
    def room(self, phase, batch, tokens, context):
        """A cell for which memory may not suffice: that is logged, and the next one is tried."""
        try:
            yield
        except (torch.OutOfMemoryError, MemoryError):
            now = time.monotonic_ns()
            self.row(phase, batch, tokens, context, (now, now, time.time_ns()), fitted=0)

    def close(self):
        self.file.close()


def whole(text):
    return [int(item) for item in text.split(",")]


def decoder(bench, arguments):
    shape = DECODERS[arguments.decoder]
    longest = max([*arguments.prompts, *arguments.contexts]) + GROWTH
    model = DecoderModel(shape, bench.device, bench.dtype, longest)
    ids = lambda *sizes: torch.randint(shape.vocabulary, sizes, device=bench.device)
    arena = None
    if arguments.allocator == "preallocated":
        arena = preallocate(bench, shape, arguments)

    def cache(batch, length):
        length = -(-length // BLOCK) * BLOCK
        return KeyValues(shape, batch, length, bench.device, bench.dtype, arena)

    if "prefill" in arguments.phases:
        for tokens in arguments.prompts:
            for batch in arguments.prompt_batches:
                with bench.room("prefill", batch, tokens, 0):
                    prompt, kept = ids(batch, tokens), cache(batch, tokens)
                    bench.cell("prefill", batch, tokens, [0], lambda _: model.step(prompt, kept, 0))
    if "decode" in arguments.phases:
        for context in arguments.contexts:
            for batch in arguments.batches:
                with bench.room("decode", batch, 1, context):
                    # The keys and values before are zeros: their cost is that of any others. The context
                    # grows by a token with each step, and begins anew where the room ends.
                    kept = cache(batch, context + GROWTH)
                    for tensor in kept.tensors:
                        tensor.zero_()
                    following = ids(batch, 1)
                    bench.cell("decode", batch, 1, range(context, context + GROWTH),
                               lambda now: model.step(following, kept, now))


def preallocate(bench, shape, arguments):
    """Room for the largest cell that fits, taken at once as an engine does it."""
    lengths = [(batch, context + GROWTH) for batch in arguments.batches for context in arguments.contexts]
    lengths += [(batch, tokens) for batch in arguments.prompt_batches for tokens in arguments.prompts]
    rounded = [batch * -(-length // BLOCK) * BLOCK for batch, length in lengths]
    count = 2 * shape.layers * shape.kv_heads * shape.head * max(rounded)
    if bench.cuda:
        free, _ = torch.cuda.mem_get_info(bench.device)
        width = torch.empty((), dtype=bench.dtype).element_size()
        count = min(count, int(free * arguments.share) // width)
    return torch.zeros(count, device=bench.device, dtype=bench.dtype)


def rerank(bench, arguments):
    shape = ENCODERS[arguments.encoder]
    model = EncoderModel(shape, bench.device, bench.dtype, max(arguments.pair_tokens))
    for tokens in arguments.pair_tokens:
        for batch in arguments.pairs:
            with bench.room("rerank", batch, tokens, 0):
                pairs = torch.randint(shape.vocabulary, (batch, tokens), device=bench.device)
                bench.cell("rerank", batch, tokens, [0], lambda _: model.step(pairs))


def parse(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=["decoder", "rerank"])
    parser.add_argument("--out", required=True, help="folder for the log")
    parser.add_argument("--name", help="name of the log; default: the workload")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--allocator", choices=["caching", "preallocated"], default="caching")
    parser.add_argument("--share", type=float, default=0.85, help="share of free memory to preallocate at most")
    parser.add_argument("--decoder", choices=sorted(DECODERS), default="7b")
    parser.add_argument("--encoder", choices=sorted(ENCODERS), default="large")
    parser.add_argument("--phases", default="prefill,decode", type=lambda text: text.split(","))
    parser.add_argument("--prompts", type=whole, default=whole("128,512,2048,8192"), help="tokens")
    parser.add_argument("--prompt-batches", type=whole, default=whole("1,2,4,8"))
    parser.add_argument("--contexts", type=whole, default=whole("128,1024,4096,16384"), help="tokens")
    parser.add_argument("--batches", type=whole, default=whole("1,2,4,8,16,32,64,128"))
    parser.add_argument("--pair-tokens", type=whole, default=whole("128,256,512"))
    parser.add_argument("--pairs", type=whole, default=whole("1,2,4,8,16,32,64,128"), help="pairs in a batch")
    parser.add_argument("--cell-s", type=float, default=1.0, help="seconds of each cell")
    return parser.parse_args(argv)


def main():
    arguments = parse()
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        print("PyTorch sees no GPU here; record.py --smoke tries everything on the CPU", file=sys.stderr)
        return 2
    torch.manual_seed(1)
    name = arguments.name or arguments.workload
    bench = Bench(arguments, name)
    try:
        with torch.inference_mode():
            {"decoder": decoder, "rerank": rerank}[arguments.workload](bench, arguments)
    finally:
        bench.close()
    about = {
        "workload": arguments.workload,
        "settings": {key: value for key, value in vars(arguments).items() if key != "out"},
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(bench.device) if bench.cuda else "cpu",
        "dtype": str(bench.dtype),
        "steps": bench.steps,
    }
    (bench.out / f"steps-{name}.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
