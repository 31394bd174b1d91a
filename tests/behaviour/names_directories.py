#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lists a large directory while it changes. names_directories.py DIR COUNT"""

import ctypes
import os
import random
import sys
import threading

libc = ctypes.CDLL(None)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.telldir.restype = ctypes.c_long
for function in (libc.readdir, libc.telldir, libc.rewinddir, libc.closedir):
    function.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
NAME_OFFSET = 19  # in struct dirent


def next_name(stream):
    entry = libc.readdir(stream)
    return ctypes.string_at(entry + NAME_OFFSET).decode() if entry else None


def make(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def every_survivor_is_listed_once(d, count):
    stop = threading.Event()

    def delete():
        for i in range(0, count, 2):
            os.unlink(f"{d}/n{i}")

    def create():
        i = 0
        while not stop.is_set():
            make(f"{d}/x{i}")
            i += 1

    threads = [threading.Thread(target=delete), threading.Thread(target=create)]
    for thread in threads:
        thread.start()
    survivors = {f"n{i}" for i in range(1, count, 2)}
    for _ in range(6):
        seen = [name for name in os.listdir(d) if name in survivors]
        assert len(seen) == len(set(seen)) == len(survivors), (len(seen), len(survivors))
    stop.set()
    for thread in threads:
        thread.join()


def positions_lead_back_to_their_entries(d):
    stream = libc.opendir(d.encode())
    places = []
    while True:
        place = libc.telldir(stream)
        name = next_name(stream)
        if name is None:
            break
        places.append((place, name))
    for place, name in random.Random(1).sample(places, 500):
        libc.seekdir(stream, place)
        assert next_name(stream) == name
    libc.rewinddir(stream)
    make(f"{d}/after-rewind")
    libc.rewinddir(stream)
    names = set()
    while (name := next_name(stream)) is not None:
        names.add(name)
    assert {"after-rewind", ".", ".."} <= names
    libc.closedir(stream)


def main():
    d, count = sys.argv[1], int(sys.argv[2])
    for i in range(count):
        make(f"{d}/n{i}")
    names = os.listdir(d)
    assert len(names) == len(set(names)) == count
    every_survivor_is_listed_once(d, count)
    positions_lead_back_to_their_entries(d)
    for name in os.listdir(d):
        os.unlink(f"{d}/{name}")
    os.rmdir(d)


main()
