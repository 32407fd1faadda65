"""The recording script against the stand-in: `FOREBAY=… NVML=… python3 -m unittest` in this folder.

`FOREBAY` is the command and `NVML` the stand-in, such as `target/debug/forebay` and
`target/debug/deps/libforebay_nvml_replay.so` after `cargo test --workspace --no-run`.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent


def record(*arguments, forebay=None):
    command = [sys.executable, str(HERE / "record.py"), "--forebay", forebay or os.environ["FOREBAY"], *arguments]
    with tempfile.TemporaryDirectory() as folder:
        # The stand-in leaves its count of calls beside its script.
        script = shutil.copy(HERE / "smoke.toml", folder)
        environment = {**os.environ, "NVML_REPLAY": str(script)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@unittest.skipUnless("FOREBAY" in os.environ and "NVML" in os.environ, "FOREBAY and NVML are not set")
class Smoke(unittest.TestCase):
    def test_all_workloads_are_recorded(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            ended = record("--smoke", "--library", os.environ["NVML"], "--out", str(out))
            self.assertEqual(ended.returncode, 0, ended.stderr)
            names = ["both", "decoder-caching", "decoder-preallocated", "rerank"]
            self.assertEqual(sorted(path.name for path in out.iterdir()), names)
            for name in names:
                self.check(out / name)
            again = record("--smoke", "--library", os.environ["NVML"], "--out", str(out), "--only", "rerank")
            self.assertEqual(again.returncode, 1)
            self.assertIn("exists already", again.stderr)

    def check(self, run):
        manifest = json.loads((run / "gpu" / "manifest.json").read_text())
        self.assertEqual(manifest["ended"], "stopped")
        from_ns = manifest["started_wall_ns"]
        until_ns = from_ns + manifest["duration_s"] * 1e9
        logs = sorted(run.glob("steps-*.csv"))
        self.assertTrue(logs)
        for log in logs:
            with open(log, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            about = json.loads(log.with_suffix(".json").read_text())
            self.assertEqual((about["steps"], about["device"]), (len(rows), "cpu"))
            phases = {"decoder": {"prefill", "decode"}, "rerank": {"rerank"}}[about["workload"]]
            self.assertEqual({row["phase"] for row in rows}, phases)
            self.assertGreater(len(rows), 10)
            for row in rows:
                self.assertEqual(row["fitted"], "1")
                self.assertLess(int(row["start_ns"]), int(row["end_ns"]))
                self.assertTrue(from_ns < int(row["start_wall_ns"]) < until_ns)

    def test_what_is_missing_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            out = str(Path(folder) / "out")
            self.assertIn("--library", record("--smoke", "--out", out).stderr)
            none = str(Path(folder) / "none.so")
            ended = record("--smoke", "--library", none, "--out", out, "--only", "rerank")
            self.assertEqual(ended.returncode, 1)
            self.assertIn("cannot be loaded", ended.stderr)
            ended = record("--smoke", "--library", none, "--out", out + "2", forebay=str(Path(folder) / "none"))
            self.assertEqual(ended.returncode, 2)
            self.assertIn("--forebay", ended.stderr)


if __name__ == "__main__":
    unittest.main()
