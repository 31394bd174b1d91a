#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""File handles as an NFS server keeps them.

  names_handles.py take MOUNT FILE PATH...    writes the handles of MOUNT/PATH to FILE
  names_handles.py open MOUNT FILE            opens each again: "PATH inode-number", or "PATH ERROR"
  names_handles.py forge MOUNT FILE PATH      the same for PATH with another generation
"""

import ctypes
import errno
import json
import os
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100


def take(path):
    """struct file_handle of @path as bytes."""
    handle = ctypes.create_string_buffer(8 + 128)
    struct.pack_into("I", handle, 0, 128)
    mount_id = ctypes.c_int()
    if libc.name_to_handle_at(AT_FDCWD, path.encode(), handle, ctypes.byref(mount_id), 0) != 0:
        raise OSError(ctypes.get_errno(), path)
    return handle.raw[: 8 + struct.unpack_from("I", handle, 0)[0]]


def answer(mount, handle):
    """The inode number behind @handle, or the name of the error."""
    fd = libc.open_by_handle_at(mount, ctypes.create_string_buffer(handle, len(handle)), os.O_PATH)
    if fd < 0:
        return errno.errorcode[ctypes.get_errno()]
    number = os.fstat(fd).st_ino
    os.close(fd)
    return number


def main():
    command, mount, file, *paths = sys.argv[1:]
    if command == "take":
        with open(file, "w", encoding="ascii") as out:
            json.dump({path: take(os.path.join(mount, path)).hex() for path in paths}, out)
        return
    with open(file, encoding="ascii") as known:
        handles = {path: bytearray.fromhex(text) for path, text in json.load(known).items()}
    if command == "forge":
        handles = {paths[0]: handles[paths[0]]}
        handles[paths[0]][-4] ^= 1  # the generation comes last in a handle of the kernel's FUSE
    fd = os.open(mount, os.O_RDONLY)
    for path, handle in handles.items():
        print(path, answer(fd, bytes(handle)))


main()
