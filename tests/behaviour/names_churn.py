#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes, links, renames and removes names at random, several processes over the same few names.

  names_churn.py DIR SEED SECONDS
"""

import errno
import os
import random
import sys
import time

EXPECTED = {
    getattr(errno, name)
    for name in "ENOENT EEXIST ENOTEMPTY EISDIR ENOTDIR EPERM ELOOP EINVAL ENODATA ENXIO".split()
}


def main():
    top, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    rng = random.Random(seed)
    dirs = [f"{top}/d{i}" for i in range(4)]
    for d in dirs:
        os.makedirs(d, exist_ok=True)

    def path():
        return rng.choice(dirs) + "/" + rng.choice("abcdefgh")

    def opened(flags):
        fd = os.open(path(), flags | os.O_NONBLOCK | os.O_NOFOLLOW, 0o644)
        os.fstat(fd)
        os.close(fd)

    def listed():
        d = rng.choice(dirs)
        for name in os.listdir(d):
            os.lstat(f"{d}/{name}")

    operations = [
        lambda: opened(os.O_CREAT | os.O_WRONLY),
        lambda: opened(os.O_RDONLY),
        lambda: os.mkdir(path()),
        lambda: os.unlink(path()),
        lambda: os.rmdir(path()),
        lambda: os.rename(path(), path()),
        lambda: os.link(path(), path(), follow_symlinks=False),
        lambda: os.symlink("a", path()),
        lambda: os.readlink(path()),
        lambda: os.mknod(path(), 0o010644),
        lambda: os.chmod(path(), 0o700 + rng.randrange(8)),
        lambda: os.utime(path(), (1, rng.randrange(99999))),
        lambda: os.setxattr(path(), "user.a", b"x", follow_symlinks=False),
        listed,
    ]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            rng.choice(operations)()
        except OSError as error:
            if error.errno not in EXPECTED:
                raise


main()
