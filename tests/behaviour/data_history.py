#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A random history of data operations on a mount, checked against bytes kept in memory.

After every few steps quotacheck must find no drift: usage, the maps of charged blocks and the extents of the backing have
to agree exactly, whatever was written, punched, truncated, copied, refused or undone. When the mount is gone the backing must
hold the same bytes, sizes and modification times.

  data_history.py run MNT CHOKEFS SEED STEPS STATE     as root; works as uid 1000
  data_history.py verify BACKING STATE
"""
import ctypes
import errno
import mmap
import os
import pickle
import random
import subprocess
import sys

UID = 1000
MAX = 3 << 20
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def fallocate(fd, mode, off, length):
    if libc.fallocate(fd, mode, off, length) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class File:
    def __init__(self, path):
        self.path = path
        self.data = bytearray()
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)

    def grow(self, size):
        if size > len(self.data):
            self.data.extend(bytes(size - len(self.data)))

    def put(self, off, data):
        self.grow(off + len(data))
        self.data[off:off + len(data)] = data

    def check(self, where):
        got = b""
        while len(got) < len(self.data) + 1:
            part = os.pread(self.fd, 1 << 20, len(got))
            if not part:
                break
            got += part
        if len(got) != len(self.data):
            sys.exit(f"{self.path}: {where}: size {len(got)}, expected {len(self.data)}")
        if got != self.data:
            at = next(i for i in range(len(got)) if got[i] != self.data[i])
            sys.exit(f"{self.path}: {where}: differs at {at}: {got[at:at+8].hex()}, expected {self.data[at:at+8].hex()}")
        if os.fstat(self.fd).st_size != len(self.data):
            sys.exit(f"{self.path}: {where}: st_size {os.fstat(self.fd).st_size}, expected {len(self.data)}")


def trace(*what):
    if os.environ.get("CHOKE_TRACE"):
        print(*what, flush=True)


def a_range(rng):
    length = rng.choice([rng.randint(1, 64), rng.randint(1, 9000), rng.randint(1, 300000), 65536, 4096])
    off = rng.randint(0, MAX - length)
    if rng.random() < 0.4:
        off -= off % rng.choice([4096, 16384, 65536])
    trace("  range", off, length)
    return off, length


def op_write(rng, file, others):
    off, length = a_range(rng)
    if rng.random() < 0.4:
        off = min(len(file.data), MAX - length)
    data = rng.randbytes(length)
    old_size = len(file.data)
    try:
        done = os.pwrite(file.fd, data, off)
    except OSError as e:
        if e.errno != errno.EDQUOT:
            raise
        done = 0
    if done > 0:
        file.put(off, data[:done])
    if done == length:
        return None
    # The undo never reaches below the old size: what is there now is there. (The kernel may send one write as two.)
    start, end = off + done, min(off + length, old_size)
    if end > start:
        now = os.pread(file.fd, end - start, start)
        for i, byte in enumerate(now):
            if byte not in (file.data[start + i], data[done + i]):
                sys.exit(f"{file.path}: after a refused write byte {start + i} is neither old nor new")
        file.data[start:end] = now
    return "short" if done else "refused"


def op_truncate(rng, file, others):
    size = rng.choice([0, rng.randint(0, MAX)] + [rng.randint(0, len(file.data)), len(file.data)] * 2)
    os.ftruncate(file.fd, size)
    file.grow(size)
    del file.data[size:]


def op_allocate(rng, file, others):
    off, length = a_range(rng)
    mode = rng.choice([0, KEEP_SIZE])
    try:
        fallocate(file.fd, mode, off, length)
    except OSError as e:
        if e.errno == errno.EDQUOT:
            return "refused"
        raise
    if mode == 0:
        file.grow(off + length)


def op_punch(rng, file, others):
    off, length = a_range(rng)
    fallocate(file.fd, PUNCH_HOLE | KEEP_SIZE, off, length)
    end = min(off + length, len(file.data))
    if end > off:
        file.data[off:end] = bytes(end - off)


def op_zero(rng, file, others):
    off, length = a_range(rng)
    mode = rng.choice([0, KEEP_SIZE])
    try:
        fallocate(file.fd, ZERO_RANGE | mode, off, length)
    except OSError as e:
        if e.errno == errno.EDQUOT:
            return "refused"
        if e.errno == errno.EOPNOTSUPP: # a backing that cannot
            return None
        raise
    if mode == 0:
        file.grow(off + length)
    end = min(off + length, len(file.data))
    if end > off:
        file.data[off:end] = bytes(end - off)


def op_copy(rng, file, others):
    source = rng.choice(others + [file])
    off_in, length = a_range(rng)
    off_out, _ = a_range(rng)
    off_out = min(off_out, MAX - length)
    if source is file and abs(off_in - off_out) < length:
        return
    try:
        done = os.copy_file_range(source.fd, file.fd, length, off_in, off_out)
    except OSError as e:
        if e.errno == errno.EDQUOT:
            return "refused"
        raise
    file.put(off_out, bytes(source.data[off_in:off_in + done])) if done else None


def op_mmap(rng, file, others):
    if len(file.data) < 2:
        return
    # Only where there is something already: a page for which there is no room would be lost, as on any file system.
    off = rng.randint(0, len(file.data) - 1)
    try:
        start = os.lseek(file.fd, off, os.SEEK_DATA)
    except OSError:
        return
    end = min(os.lseek(file.fd, start, os.SEEK_HOLE), start + 20000, len(file.data))
    data = rng.randbytes(end - start)
    with mmap.mmap(file.fd, 0) as memory:
        memory[start:end] = data
        memory.flush()
    file.put(start, data)


def op_sync(rng, file, others):
    (os.fsync if rng.random() < 0.5 else os.fdatasync)(file.fd)


def op_read(rng, file, others):
    off, length = a_range(rng)
    got = os.pread(file.fd, length, off)
    if got != file.data[off:off + length]:
        sys.exit(f"{file.path}: read of {length} at {off} is wrong")


def op_seek(rng, file, others):
    """Nothing but zeroes may lie in a hole."""
    at = 0
    while at < len(file.data):
        try:
            data = os.lseek(file.fd, at, os.SEEK_DATA)
        except OSError as e:
            assert e.errno == errno.ENXIO
            data = len(file.data)
        if any(file.data[at:data]):
            sys.exit(f"{file.path}: data in the hole {at}..{data}")
        if data == len(file.data):
            return
        at = os.lseek(file.fd, data, os.SEEK_HOLE)


def op_reopen(rng, file, others):
    os.close(file.fd)
    if rng.random() < 0.2:
        file.fd = os.open(file.path, os.O_RDWR | os.O_TRUNC)
        del file.data[:]
    else:
        file.fd = os.open(file.path, os.O_RDWR)


def op_replace(rng, file, others):
    """A file without a name is written to once more, and then let go."""
    os.unlink(file.path)
    old = file.fd
    try:
        os.pwrite(old, b"x" * 50000, 0)
    except OSError as e:
        if e.errno != errno.EDQUOT:
            raise
    if rng.random() < 0.5:
        check_drift()
    file.data = bytearray()
    file.fd = os.open(file.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    os.close(old)


def op_group(rng, file, others):
    as_root()
    os.chown(file.path, -1, rng.choice([1000, 1001]))
    as_user()


OPS = [(op_write, 30), (op_truncate, 8), (op_allocate, 5), (op_punch, 6), (op_zero, 4), (op_copy, 6), (op_mmap, 3),
       (op_sync, 3), (op_read, 10), (op_seek, 3), (op_reopen, 4), (op_replace, 2), (op_group, 2)]


def as_root():
    os.seteuid(0)
    os.setegid(0)


def as_user():
    os.setegid(UID)
    os.seteuid(UID)


def check_drift():
    as_root()
    result = subprocess.run([chokefs, "quotacheck", mnt], capture_output=True, text=True)
    as_user()
    if result.returncode != 0:
        sys.exit(f"quotacheck: {result.stdout}{result.stderr}")


def run(seed, steps, state):
    rng = random.Random(seed)
    refused = 0
    os.setgroups([])
    as_user()
    files = [File(f"{mnt}/history{i}") for i in range(4)]
    weights = [weight for _, weight in OPS]
    for step in range(steps):
        file = rng.choice(files)
        op, _ = rng.choices(OPS, weights)[0]
        where = f"seed {seed} step {step} {op.__name__}"
        trace(where, file.path, "size", len(file.data))
        try:
            verdict = op(rng, file, [f for f in files if f is not file])
        except OSError as e:
            sys.exit(f"{file.path}: {where}: {e}")
        trace("  ", verdict)
        refused += verdict in ("refused", "short")
        if rng.random() < 0.25 or os.environ.get("CHOKE_CHECK_ALL"):
            file.check(where)
        if step % 20 == 19 or os.environ.get("CHOKE_TRACE"):
            check_drift()
    for file in files:
        file.check("at the end")
    check_drift()
    as_root()
    saved = {os.path.basename(f.path): (bytes(f.data), os.stat(f.path).st_mtime_ns) for f in files}
    with open(state, "wb") as out:
        pickle.dump(saved, out)
    print(f"{steps} steps, {refused} refused or shortened")


def verify(backing, state):
    with open(state, "rb") as saved:
        files = pickle.load(saved)
    for name, (data, mtime) in files.items():
        path = f"{backing}/{name}"
        with open(path, "rb") as file:
            got = file.read()
        if len(got) != len(data):
            sys.exit(f"{path}: the backing has {len(got)} bytes, expected {len(data)}")
        if got != data:
            at = next(i for i in range(len(got)) if got[i] != data[i])
            sys.exit(f"{path}: the backing differs at {at}: {got[at:at+8].hex()}, expected {data[at:at+8].hex()}")
        if os.stat(path).st_mtime_ns != mtime:
            sys.exit(f"{path}: mtime {os.stat(path).st_mtime_ns}, was {mtime} on the mount")


if sys.argv[1] == "run":
    mnt, chokefs = sys.argv[2], sys.argv[3]
    run(int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
else:
    verify(sys.argv[2], sys.argv[3])
