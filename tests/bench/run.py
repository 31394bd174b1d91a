#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares chokefs with its peers by fio, in one run, turn and turn about. Figures, never a verdict.

Absolute figures drift from hour to hour, so only ratios within one run mean anything: in each round every row is
measured on every system, each time on a fresh backing directory and a fresh mount, and the medians are compared.
passthrough_ll, the example of libfuse, is built from the sources that libfuse3-dev installs and runs with its own
default options.
"""

import argparse
import gzip
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

EXAMPLES = "/usr/share/doc/libfuse3-dev/examples"
BASELINE = "passthrough_ll"
# name: (fio's rw, block size, jobs)
ROWS = {
    "seq-write-128k": ("write", "128k", 1),
    "rand-write-4k-x4": ("randwrite", "4k", 4),
    "seq-read-128k": ("read", "128k", 1),
    "rand-read-4k-x4": ("randread", "4k", 4),
}


def run(command, **options):
    return subprocess.run(command, check=True, **options)


def build_passthrough(directory):
    """Compiles the example in a temporary directory; its sources may be compressed."""
    for name in ("passthrough_ll.c", "passthrough_helpers.h"):
        path = os.path.join(EXAMPLES, name)
        opener = open if os.path.exists(path) else gzip.open
        with opener(path if opener is open else path + ".gz", "rb") as source:
            with open(os.path.join(directory, name), "wb") as copy:
                shutil.copyfileobj(source, copy)
    flags = subprocess.check_output(["pkg-config", "--cflags", "--libs", "fuse3"], text=True).split()
    program = os.path.join(directory, "passthrough_ll")
    run(["gcc", "-O2", "-D_GNU_SOURCE", os.path.join(directory, "passthrough_ll.c"), "-o", program, *flags])
    return program


class Mount:
    """One system mounted over one backing directory; gone when the scope ends."""

    def __init__(self, command, backing, mountpoint):
        self.command = command.replace("{backing}", backing).replace("{mountpoint}", mountpoint)
        self.mountpoint = mountpoint

    def __enter__(self):
        # A program that goes into the background ends by itself; one that stays is waited for until it serves.
        self.process = subprocess.Popen(self.command, shell=True, start_new_session=True, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 15
        while not os.path.ismount(self.mountpoint):
            if time.monotonic() > deadline or self.process.poll() not in (None, 0):
                raise SystemExit(f"bench: {self.command}: did not mount")
            time.sleep(0.02)
        return self

    def __exit__(self, *exc):
        for _ in range(50):
            if subprocess.run(["umount", self.mountpoint], stderr=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.2)
        else:
            run(["umount", "-l", self.mountpoint])
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.terminate()


def fio(directory, row, args):
    mode, block, jobs = ROWS[row]
    report = subprocess.check_output(
        ["fio", "--name=bench", f"--directory={directory}", f"--rw={mode}", f"--bs={block}", f"--numjobs={jobs}",
         f"--size={args.size}", "--ioengine=psync", "--time_based", f"--runtime={args.runtime}", "--group_reporting",
         "--randrepeat=1", "--output-format=json"], text=True)
    job = json.loads(report[report.index("{"):])["jobs"][0]
    if job["error"]:
        raise SystemExit(f"bench: fio failed with {job['error']} on {directory}")
    return job["read" if "read" in mode else "write"]["bw_bytes"] / 1e6


def lay_out(backing, row, args):
    """The files of a reading row are put into the backing beforehand, so that the first pass is cold."""
    mode, _, jobs = ROWS[row]
    if "read" in mode:
        run(["fio", "--name=bench", f"--directory={backing}", "--rw=write", "--bs=1M", f"--numjobs={jobs}",
             f"--size={args.size}", "--ioengine=psync", "--end_fsync=1", "--output-format=terse"],
            stdout=subprocess.DEVNULL)


def settle():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as drop:
        drop.write("3")


def measure(command, row, scratch, args):
    backing, mountpoint = tempfile.mkdtemp(dir=scratch), tempfile.mkdtemp(dir=scratch)
    try:
        lay_out(backing, row, args)
        settle()
        with Mount(command, backing, mountpoint):
            return fio(mountpoint, row, args)
    finally:
        shutil.rmtree(backing, ignore_errors=True)
        os.rmdir(mountpoint)


def print_table(samples, systems):
    others = [name for name in systems if name != "chokefs"]
    print(f"\n{'MB/s, median (lowest-highest)':<20s}")
    head = "".join(f"{name:>26s}" for name in systems) + "".join(f"  chokefs/{name}" for name in others)
    print(f"{'row':<20s}{head}")
    for row, by_system in samples.items():
        medians = {name: statistics.median(values) for name, values in by_system.items()}
        cells = "".join(
            f"{medians[name]:>12.0f} ({min(by_system[name]):.0f}-{max(by_system[name]):.0f})".rjust(26)
            for name in systems)
        ratios = "".join(
            f"{medians['chokefs'] / medians[name]:>{len(name) + 10}.2f}" for name in others)
        print(f"{row:<20s}{cells}{ratios}")


def parse_args():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("--chokefs", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runtime", type=int, default=5, help="seconds a measurement")
    parser.add_argument("--size", default="1G", help="of each job's file")
    parser.add_argument("--rows", default=",".join(ROWS), help="of " + " ".join(ROWS))
    parser.add_argument("--options", default="device=none", help="mount options of chokefs")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND",
                        help="another system: a command with {backing} and {mountpoint}")
    parser.add_argument("--json", metavar="FILE", help="every sample")
    args = parser.parse_args()
    for row in args.rows.split(","):
        if row not in ROWS:
            parser.error(f"--rows: {row}: not one of {' '.join(ROWS)}")
    for peer in args.peer:
        if "=" not in peer or "{mountpoint}" not in peer:
            parser.error(f"--peer: {peer}: not NAME=COMMAND with {{backing}} and {{mountpoint}}")
    return args


def main():
    args = parse_args()
    scratch = tempfile.mkdtemp(prefix="chokefs-bench.", dir=os.environ.get("CHOKEFS_SCRATCH", "/var/tmp"))
    try:
        systems = {
            "chokefs": f"{shlex.quote(args.chokefs)} mount -o {shlex.quote(args.options)} {{backing}} {{mountpoint}}",
            BASELINE: f"{build_passthrough(scratch)} -o source={{backing}} {{mountpoint}}",
        }
        systems.update(peer.split("=", 1) for peer in args.peer)
        samples = {row: {name: [] for name in systems} for row in args.rows.split(",")}
        for number in range(args.rounds):
            for row, by_system in samples.items():
                for name, command in systems.items():
                    by_system[name].append(measure(command, row, scratch, args))
                    print(f"round {number + 1}/{args.rounds} {row} {name}: {by_system[name][-1]:.0f} MB/s",
                          file=sys.stderr)
        print_table(samples, systems)
        if args.json:
            with open(args.json, "w") as out:
                json.dump({"unit": "MB/s", "options": args.options, "runtime_s": args.runtime, "size": args.size,
                           "samples": samples}, out, indent=1)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
