"""Records a GPU at work: the recorder beside the workloads of `work.py`, one folder for each.

    python3 record.py --forebay ../../target/release/forebay --out out

Recorded are the decoder with PyTorch's caching allocator, the decoder with its room taken at once, the
cross-encoder, and both models on one device at once, each a process of its own. Each folder holds what
`forebay calibrate record` wrote (`gpu/`), the log of each workload's steps (`steps-*.csv`) and what it was made
with (`steps-*.json`). Steps and samples are joined by the wall clock; durations are those of the monotonic one.

`--smoke` tries all of it on the CPU with tiny shapes, against the stand-in for NVIDIA's library that
`--library` names. What that leaves is a test of the tools and no measurement of anything.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Quiet seconds before and after the work, so that the idle device is seen too.
QUIET_S = 2.0
# Longest wait for the recorder to begin, and to end.
PATIENCE_S = 30.0

TINY = {
    "decoder": ["--decoder", "tiny", "--prompts", "16,32", "--prompt-batches", "1,2", "--contexts", "16,64",
                "--batches", "1,4"],
    "rerank": ["--encoder", "tiny", "--pair-tokens", "16,32", "--pairs", "1,4"],
}


def runs(arguments):
    """Folder, and the workloads that run there at once: name, workload, options."""
    steady = arguments.cell_s * 20
    both = {
        "decoder": ["--phases", "decode", "--contexts", "2048", "--batches", "4,16,64", "--cell-s", str(steady)],
        "rerank": ["--pair-tokens", "256", "--pairs", "8,32,128", "--cell-s", str(steady)],
    }
    if arguments.smoke:
        both = {name: TINY[name] for name in both}
    plain = TINY if arguments.smoke else {"decoder": [], "rerank": []}
    model = [] if arguments.smoke else ["--decoder", arguments.decoder]
    decoder = lambda allocator: ("decoder", "decoder", [*plain["decoder"], *model, "--allocator", allocator])
    return {
        "decoder-caching": [decoder("caching")],
        "decoder-preallocated": [decoder("preallocated")],
        "rerank": [("rerank", "rerank", plain["rerank"])],
        "both": [
            # It takes the room that its cells need and no more: the other model needs the rest.
            ("decoder", "decoder", [*both["decoder"], *model, "--allocator", "preallocated"]),
            ("rerank", "rerank", both["rerank"]),
        ],
    }


def recorder(arguments, out):
    command = [arguments.forebay, "calibrate", "record", "--every", arguments.every, "--out", str(out), "--quiet"]
    if arguments.library:
        command += ["--library", arguments.library]
    else:
        command += ["--device", str(arguments.index)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    # It records as soon as its hidden files are there.
    begun = time.monotonic()
    while not (out.is_dir() and any(out.iterdir())):
        if process.poll() is not None or time.monotonic() - begun > PATIENCE_S:
            process.kill()
            process.wait()
            raise Failed(f"the recorder did not begin (exit {process.returncode}); it says why above")
        time.sleep(0.02)
    return process


def workload(arguments, out, name, kind, options):
    device = "cpu" if arguments.smoke else f"cuda:{arguments.index}"
    cell_s = [] if "--cell-s" in options else ["--cell-s", str(arguments.cell_s)]
    command = [sys.executable, str(HERE / "work.py"), kind, "--out", str(out), "--name", name, "--device", device]
    # The recorder counts devices as the driver does.
    environment = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return subprocess.Popen([*command, *options, *cell_s], env=environment)


class Failed(Exception):
    """What the user is told."""


def run(arguments, name, workloads):
    out = Path(arguments.out) / name
    try:
        out.mkdir(parents=True)
    except FileExistsError:
        raise Failed(f"{out}: it exists already; give another --out") from None
    print(f"{name}: recording", file=sys.stderr)
    quiet_s = 0.3 if arguments.smoke else QUIET_S
    recording = recorder(arguments, out / "gpu")
    started = []
    try:
        time.sleep(quiet_s)
        started = [workload(arguments, out, *one) for one in workloads]
        codes = [process.wait() for process in started]
        time.sleep(quiet_s)
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()
        recording.send_signal(signal.SIGINT)
        text, _ = recording.communicate(timeout=PATIENCE_S)
    print(text, end="")
    if any(codes):
        raise Failed(f"{name}: a workload ended with {codes}; it says why above")
    if recording.returncode != 0:
        raise Failed(f"{name}: the recorder ended with {recording.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forebay", required=True, help="the command")
    parser.add_argument("--out", required=True, help="folder for all recordings")
    parser.add_argument("--every", default="10ms", help="time between two samples")
    parser.add_argument("--index", type=int, default=0, help="the driver's index of the device")
    parser.add_argument("--library", help="the management library, where it is not the system's")
    parser.add_argument("--decoder", choices=["7b", "1.5b"], default="7b", help="shape of the decoder")
    parser.add_argument("--cell-s", type=float, default=None, help="seconds of each cell; default 1")
    parser.add_argument("--only", help="these alone, by commas: decoder-caching, decoder-preallocated, rerank, both")
    parser.add_argument("--smoke", action="store_true", help="tiny shapes on the CPU, no measurement")
    arguments = parser.parse_args()
    if arguments.cell_s is None:
        arguments.cell_s = 0.05 if arguments.smoke else 1.0
    chosen = runs(arguments)
    if arguments.only:
        names = arguments.only.split(",")
        unknown = [name for name in names if name not in chosen]
        if unknown:
            parser.error(f"--only: there is no {unknown[0]}; there are {', '.join(chosen)}")
        chosen = {name: chosen[name] for name in names}
    if arguments.smoke and not arguments.library:
        parser.error("--smoke needs --library: without a GPU there is only the stand-in to record")
    try:
        for name, workloads in chosen.items():
            run(arguments, name, workloads)
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        print(f"{error.filename}: it is not there; --forebay names the command", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
