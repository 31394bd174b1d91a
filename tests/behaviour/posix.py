#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does what programs do to files under a directory, and prints what happened: one line per question.

  posix.py DIR

posix.sh runs it on the plain file system and on a mount; the two must say the same, and what both must say is asserted
here. Run as root: parts act as other users. Nothing that is printed may depend on inode numbers or on time.
"""

import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
import stat
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
BLOCK = 4096


def attempt(call, *args, **kwargs):
    """The result, or the name of the error."""
    try:
        return call(*args, **kwargs)
    except OSError as error:
        return errno.errorcode[error.errno]


def as_uid(uid, gid, groups, call):
    """Runs @call in a child with those ids; its text comes back."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        os.write(writer, repr(call()).encode())
        os._exit(0)
    os.close(writer)
    text = b""
    while part := os.read(reader, 65536):
        text += part
    os.close(reader)
    os.waitpid(pid, 0)
    return text.decode()


def put(path, data, mode=0o644):
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def get(path):
    with open(path, "rb") as file:
        return file.read()


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def brief(path):
    st = os.lstat(path)
    return (stat.filemode(st.st_mode), st.st_uid, st.st_gid, st.st_nlink if not stat.S_ISDIR(st.st_mode) else "-",
            st.st_size if stat.S_ISREG(st.st_mode) else "-")


def renameat2(old, new, flags):
    if libc.renameat2(-100, old.encode(), -100, new.encode(), flags) == 0:
        return 0
    return errno.errorcode[ctypes.get_errno()]


# ---- each function below: a question; it may use the fresh directory it is given ----

def ownership_is_the_callers(d):
    os.chmod(d, 0o777)

    def make():
        os.umask(0o027)
        put_fd = os.open(d + "/f", os.O_CREAT | os.O_WRONLY, 0o666)
        os.mkdir(d + "/d", 0o777)
        os.symlink("x", d + "/l")
        os.mkfifo(d + "/p", 0o666)
        os.close(put_fd)
        return [brief(d + "/" + n) for n in "fdlp"]
    made = as_uid(1000, 1001, [], make)
    assert "1000, 1001" in made and "'-rw-r-----'" in made, made
    return made


def setgid_directories_hand_down_the_group(d):
    os.chown(d, 0, 1234)
    os.chmod(d, 0o2777)

    def make():
        os.mkdir(d + "/sub")
        os.close(os.open(d + "/f", os.O_CREAT | os.O_WRONLY, 0o2775))
        return brief(d + "/sub"), brief(d + "/f")
    made = as_uid(1000, 1000, [], make)
    assert "1000, 1234" in made, made
    return made


def permission_is_checked(d):
    put(d + "/secret", b"x", 0o600)
    put(d + "/shared", b"x", 0o640)
    os.chown(d + "/shared", 0, 1005)
    os.chmod(d, 0o755)
    answers = as_uid(1000, 1000, [1005], lambda: (
        attempt(get, d + "/secret"), attempt(get, d + "/shared"), attempt(os.open, d + "/shared", os.O_WRONLY),
        attempt(os.unlink, d + "/secret"), attempt(os.chmod, d + "/shared", 0o777),
        attempt(os.chown, d + "/shared", 1000, -1), attempt(os.mkdir, d + "/new"), os.access(d + "/shared", os.R_OK)))
    assert answers.startswith("('EACCES', b'x', 'EACCES', 'EACCES', 'EPERM', 'EPERM', 'EACCES', True)"), answers
    return answers


def sticky_directories_protect_their_files(d):
    os.chmod(d, 0o1777)
    put(d + "/roots", b"x", 0o666)
    return as_uid(1000, 1000, [], lambda: (attempt(os.unlink, d + "/roots"), attempt(os.rename, d + "/roots", d + "/r2")))


def writing_clears_the_suid_bits(d):
    put(d + "/prog", b"x")
    os.chown(d + "/prog", 1000, 1000)
    os.chmod(d, 0o777)

    def write():
        os.chmod(d + "/prog", 0o6755)
        with open(d + "/prog", "r+b") as file:
            file.write(b"y")
        after_write = oct(os.stat(d + "/prog").st_mode)
        os.chmod(d + "/prog", 0o6755)
        os.truncate(d + "/prog", 0)
        after_truncate = oct(os.stat(d + "/prog").st_mode)
        os.chmod(d + "/prog", 0o6755)
        os.chown(d + "/prog", 1000, 1000)
        return after_write, after_truncate, oct(os.stat(d + "/prog").st_mode)
    return as_uid(1000, 1000, [], write)


def chown_to_nobody_new_still_changes_the_file(d):
    def change(path):
        os.chmod(path, 0o6755)
        before = os.stat(path)
        time.sleep(0.02)  # the clock that stamps files ticks every 10 ms at worst
        os.chown(path, -1, -1)
        after = os.stat(path)
        return oct(after.st_mode), after.st_ctime_ns > before.st_ctime_ns, after.st_mtime_ns == before.st_mtime_ns

    def as_owner():
        put(d + "/cold", b"x")
        os.mkdir(d + "/dir")
        with open(d + "/warm", "wb") as file:
            file.write(b"still to be written back")
            file.flush()
            warm = change(d + "/warm")
        return change(d + "/cold"), warm, change(d + "/dir")
    os.chmod(d, 0o777)
    answers = as_uid(1000, 1000, [], as_owner), change(d + "/cold")
    file = "('0o100755', True, True)"
    assert answers[0] == f"({file}, {file}, ('0o46755', True, True))", answers
    return answers


def renames_replace_and_refuse(d):
    put(d + "/a", b"a")
    put(d + "/b", b"b")
    os.mkdir(d + "/dir")
    os.mkdir(d + "/dir/full")
    os.mkdir(d + "/empty")
    answers = [attempt(os.rename, d + "/a", d + "/b"), get(d + "/b"), attempt(os.rename, d + "/b", d + "/dir"),
               attempt(os.rename, d + "/dir", d + "/b"), attempt(os.rename, d + "/empty", d + "/dir"),
               attempt(os.rename, d + "/dir", d + "/dir/full/x"), attempt(os.rename, d + "/dir", d + "/empty"),
               attempt(os.rename, d + "/gone", d + "/x"), sorted(os.listdir(d))]
    assert answers[1] == b"a" and answers[2] == "EISDIR" and answers[4] == "ENOTEMPTY", answers
    return answers


def renameat2_exchanges_and_does_not_replace(d):
    put(d + "/a", b"a")
    put(d + "/b", b"b")
    answers = [renameat2(d + "/a", d + "/b", 1), renameat2(d + "/a", d + "/b", 2), get(d + "/a"), get(d + "/b"),
               renameat2(d + "/a", d + "/c", 1), sorted(os.listdir(d))]
    assert answers[:4] == ["EEXIST", 0, b"b", b"a"], answers
    return answers


def links_share_an_inode(d):
    put(d + "/a", b"hello")
    os.link(d + "/a", d + "/b")
    assert os.stat(d + "/a").st_ino == os.stat(d + "/b").st_ino
    with open(d + "/b", "ab") as file:
        file.write(b" world")
    answers = [brief(d + "/a"), get(d + "/a"), attempt(os.link, d + "/a", d + "/b"), attempt(os.link, d, d + "/c")]
    os.unlink(d + "/a")
    answers += [brief(d + "/b"), get(d + "/b")]
    assert answers[1] == b"hello world" and answers[-1] == b"hello world", answers
    return answers


def an_unlinked_open_file_lives_on(d):
    put(d + "/f", b"hello")
    fd = os.open(d + "/f", os.O_RDWR)
    os.unlink(d + "/f")
    os.pwrite(fd, b"J", 0)
    os.pwrite(fd, b"!" * 10000, 5)
    os.fsync(fd)
    os.ftruncate(fd, 8)
    os.fchmod(fd, 0o600)
    answers = [os.pread(fd, 100, 0), os.fstat(fd).st_nlink, os.fstat(fd).st_size, os.listdir(d)]
    os.close(fd)
    assert answers == [b"Jello!!!", 0, 8, []], answers
    return answers


def a_new_file_under_an_unlinked_ones_name_is_another(d):
    put(d + "/f", b"old")
    fd = os.open(d + "/f", os.O_RDWR)
    os.unlink(d + "/f")
    put(d + "/f", b"newer")
    answers = [os.pread(fd, 10, 0), get(d + "/f"), os.fstat(fd).st_ino != os.stat(d + "/f").st_ino]
    os.close(fd)
    assert answers == [b"old", b"newer", True], answers
    return answers


def names_up_to_255_bytes(d):
    answers = [attempt(put, d + "/" + "n" * 255, b"x"), attempt(put, d + "/" + "n" * 256, b"x"),
               attempt(os.mkdir, d + "/" + "é" * 127), attempt(os.symlink, "t" * 4095, d + "/l"),
               len(os.listdir(d)), attempt(os.symlink, "", d + "/e"), attempt(os.rmdir, d + "/.")]
    return answers


def directories_list_all_entries_once(d):
    names = {f"entry-{i:05}" for i in range(3000)}
    for name in names:
        os.close(os.open(d + "/" + name, os.O_CREAT | os.O_WRONLY))
    assert set(os.listdir(d)) == names and len(os.listdir(d)) == 3000
    # Removal while listing must neither repeat nor lose what stays.
    with os.scandir(d) as entries:
        for number, entry in enumerate(entries):
            if number % 2:
                os.unlink(entry.path)
    return len(os.listdir(d)), attempt(os.rmdir, d), sorted(os.listdir(d)) == sorted(set(os.listdir(d)))


def appends_from_two_handles_interleave_whole(d):
    a = os.open(d + "/f", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    b = os.open(d + "/f", os.O_WRONLY | os.O_APPEND)
    for i in range(200):
        os.write(a, b"a" * 100)
        os.write(b, b"b" * 333)
    answers = [os.stat(d + "/f").st_size, digest(get(d + "/f"))]
    assert answers[0] == 200 * 433, answers
    os.close(a)
    os.close(b)
    return answers


def writes_at_all_alignments_read_back(d):
    image = bytearray(300000)
    fd = os.open(d + "/f", os.O_CREAT | os.O_RDWR, 0o644)
    size, seed = 0, 1
    for _ in range(400):
        seed = seed * 1103515245 + 12345 & 0x7fffffff
        off, length = seed % 200000, 1 + (seed >> 8) % (70000 if seed % 3 == 0 else 300)
        data = bytes([seed % 251]) * length
        os.pwrite(fd, data, off)
        image[off:off + length] = data
        size = max(size, off + length)
    answers = [os.fstat(fd).st_size == size, os.pread(fd, 400000, 0) == bytes(image[:size])]
    os.close(fd)
    answers.append(get(d + "/f") == bytes(image[:size]))
    assert answers == [True] * 3, answers
    return answers


def vectors_and_offsets(d):
    fd = os.open(d + "/f", os.O_CREAT | os.O_RDWR, 0o644)
    written = os.pwritev(fd, [b"abc", b"", b"defgh", b"x" * 5000], 4090)
    parts = [bytearray(3), bytearray(5), bytearray(6000)]
    got = os.preadv(fd, parts, 4090)
    answers = [written, got, bytes(parts[0]), bytes(parts[1]), attempt(os.pread, fd, 10, 1 << 40),
               attempt(os.pwrite, fd, b"x", -1), os.read(fd, 3), os.lseek(fd, 0, os.SEEK_CUR)]
    os.close(fd)
    assert answers[:4] == [5008, 5008, b"abc", b"defgh"], answers
    return answers


def truncation_cuts_and_extends_with_zeroes(d):
    put(d + "/f", b"x" * 10000)
    os.truncate(d + "/f", 5001)
    os.truncate(d + "/f", 20000)
    data = get(d + "/f")
    assert data == b"x" * 5001 + bytes(14999)
    fd = os.open(d + "/f", os.O_RDWR)
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"end", 9000)
    answers = [os.fstat(fd).st_size, digest(os.pread(fd, 20000, 0)), attempt(os.truncate, d + "/f", -1),
               attempt(os.truncate, d, 0), attempt(os.truncate, d + "/gone", 0)]
    os.close(fd)
    assert answers[1] == digest(bytes(9000) + b"end"), answers
    return answers


def o_trunc_and_o_excl(d):
    put(d + "/f", b"x" * 5000)
    os.close(os.open(d + "/f", os.O_WRONLY | os.O_TRUNC))
    return [os.stat(d + "/f").st_size, attempt(os.open, d + "/f", os.O_CREAT | os.O_EXCL | os.O_WRONLY),
            attempt(os.open, d + "/gone", os.O_WRONLY), attempt(os.open, d, os.O_WRONLY),
            attempt(os.open, d + "/f/x", os.O_RDONLY), attempt(os.open, d + "/f", os.O_DIRECTORY)]


def holes_are_found_and_filled(d):
    fd = os.open(d + "/f", os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(fd, b"a" * BLOCK, 0)
    os.pwrite(fd, b"b" * BLOCK, 1 << 20)
    os.ftruncate(fd, 2 << 20)
    os.fsync(fd)
    answers = [os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 0, os.SEEK_HOLE), os.lseek(fd, BLOCK, os.SEEK_DATA),
               os.lseek(fd, 1 << 20, os.SEEK_HOLE), attempt(os.lseek, fd, (1 << 20) + BLOCK, os.SEEK_DATA),
               attempt(os.lseek, fd, 3 << 20, os.SEEK_HOLE), os.fstat(fd).st_blocks]
    os.close(fd)
    assert answers[:4] == [0, BLOCK, 1 << 20, (1 << 20) + BLOCK] and answers[6] == 16, answers
    return answers


def holes_are_found_before_they_are_on_disk(d):
    fd = os.open(d + "/f", os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(fd, b"b" * BLOCK, 1 << 20)
    answers = [os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 0, os.SEEK_HOLE), os.lseek(fd, 1 << 20, os.SEEK_HOLE)]
    os.close(fd)
    return answers


KEEP, PUNCH, COLLAPSE, ZERO, INSERT = 1, 2, 8, 16, 32


def fallocate_each(d, requests):
    """Makes each request (mode, offset, length) of one file; the errors, sizes and contents."""
    fd = os.open(d + "/f", os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(fd, bytes(range(1, 65)) * 1024, 0)
    answers = []
    for mode, off, length in requests:
        failed = libc.fallocate(fd, mode, ctypes.c_long(off), ctypes.c_long(length))
        result = errno.errorcode[ctypes.get_errno()] if failed else 0
        answers.append((mode, result, os.fstat(fd).st_size, digest(os.pread(fd, 200000, 0))))
    os.fsync(fd)
    os.close(fd)
    answers.append(digest(get(d + "/f")))
    return answers


def fallocate_allocates_punches_and_zeroes(d):
    return fallocate_each(d, (
        (0, 60000, 10000), (KEEP, 100000, 50000), (PUNCH | KEEP, BLOCK, 2 * BLOCK), (PUNCH | KEEP, 20001, 100),
        (ZERO, 30000, 5000), (ZERO | KEEP, 69000, 90000), (PUNCH, 0, BLOCK), (0, 0, 0), (0, -1, 10)))


def fallocate_collapses_and_inserts(d):
    return fallocate_each(d, ((COLLAPSE, 0, BLOCK), (INSERT, 2 * BLOCK, BLOCK), (COLLAPSE, 1, BLOCK)))


def copy_file_range_copies(d):
    data = bytes(range(256)) * 1000
    put(d + "/a", data)
    a, b = os.open(d + "/a", os.O_RDWR), os.open(d + "/b", os.O_CREAT | os.O_RDWR, 0o644)
    done = 0
    while done < len(data):
        copied = os.copy_file_range(a, b, len(data) - done, done, done)
        if copied == 0:
            break
        done += copied
    assert get(d + "/b") == data
    answers = [done, os.copy_file_range(a, b, 100, 7, 250000), os.fstat(b).st_size, digest(get(d + "/b")),
               attempt(os.copy_file_range, a, a, 10, 0, 5), os.copy_file_range(a, b, 100, 1 << 30, 0)]
    os.close(a)
    os.close(b)
    return answers


def mapped_writes_and_reads_agree_with_read_and_write(d):
    put(d + "/f", b"a" * 20000)
    fd = os.open(d + "/f", os.O_RDWR)
    shared = mmap.mmap(fd, 20000)
    os.pwrite(fd, b"WRITTEN", 5000)
    seen = bytes(shared[5000:5007])
    shared[9000:9006] = b"MAPPED"
    shared.flush()
    answers = [seen, os.pread(fd, 6, 9000), digest(bytes(shared))]
    shared.close()
    os.fsync(fd)
    os.close(fd)
    answers.append(digest(get(d + "/f")))
    assert answers[0] == b"WRITTEN" and answers[1] == b"MAPPED", answers
    return answers


def direct_io_sees_what_buffered_io_wrote(d):
    fd = os.open(d + "/f", os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(fd, b"q" * (4 * BLOCK), 0)
    direct = attempt(os.open, d + "/f", os.O_RDWR | os.O_DIRECT)
    if isinstance(direct, str):
        return direct
    buffer = mmap.mmap(-1, BLOCK)
    got = os.preadv(direct, [buffer], BLOCK)
    same = bytes(buffer) == b"q" * BLOCK
    buffer[:] = b"d" * BLOCK
    os.pwritev(direct, [buffer], 2 * BLOCK)
    answers = [got, same, digest(os.pread(fd, 4 * BLOCK, 0))]
    os.close(direct)
    os.close(fd)
    assert answers[1], answers
    return answers


def locks_exclude_between_processes(d):
    put(d + "/f", b"x" * 100)
    fd = os.open(d + "/f", os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
    fcntl.flock(fd, fcntl.LOCK_SH)

    def other():
        fd = os.open(d + "/f", os.O_RDWR)
        return (attempt(fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5),
                attempt(fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 20),
                attempt(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB), attempt(fcntl.flock, fd, fcntl.LOCK_SH))
    os.chmod(d + "/f", 0o666)
    os.chmod(d, 0o777)
    answers = as_uid(1000, 1000, [], other)
    os.close(fd)
    assert answers == "('EAGAIN', None, 'EAGAIN', None)", answers
    return answers


def extended_attributes(d):
    put(d + "/f", b"x")
    answers = [attempt(os.setxattr, d + "/f", "user.a", b"1"), attempt(os.setxattr, d + "/f", "user.a", b"2", os.XATTR_CREATE),
               attempt(os.setxattr, d + "/f", "user.b", b"2", os.XATTR_REPLACE),
               attempt(os.setxattr, d + "/f", "user.empty", b""), attempt(os.getxattr, d + "/f", "user.a"),
               attempt(os.getxattr, d + "/f", "user.empty"), attempt(os.getxattr, d + "/f", "user.gone"),
               sorted(attempt(os.listxattr, d + "/f")), attempt(os.removexattr, d + "/f", "user.a"),
               attempt(os.removexattr, d + "/f", "user.a"), attempt(os.setxattr, d + "/f", "user.big", b"v" * 3000),
               attempt(os.setxattr, d + "/f", "trusted.t", b"v"), attempt(os.setxattr, d + "/f", "nonsense", b"v"),
               attempt(os.setxattr, d, "user.d", b"v"), attempt(os.getxattr, d, "user.d")]
    return answers


def access_lists_grant_and_are_inherited(d):
    def acl(*entries):
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    none = 0xffffffff
    put(d + "/f", b"secret", 0o600)
    os.chmod(d, 0o755)
    grant = acl((1, 6, none), (2, 4, 1000), (4, 0, none), (16, 4, none), (32, 0, none))
    answers = [attempt(os.setxattr, d + "/f", "system.posix_acl_access", grant)]
    answers.append(as_uid(1000, 1000, [], lambda: attempt(get, d + "/f")))
    answers.append(as_uid(1001, 1001, [], lambda: attempt(get, d + "/f")))
    default = acl((1, 7, none), (2, 5, 1000), (4, 5, none), (16, 5, none), (32, 0, none))
    answers.append(attempt(os.setxattr, d, "system.posix_acl_default", default))
    os.umask(0o077)
    os.close(os.open(d + "/heir", os.O_CREAT | os.O_WRONLY, 0o666))
    os.mkdir(d + "/dir", 0o777)
    os.umask(0o022)
    answers += [brief(d + "/heir")[0], brief(d + "/dir")[0], attempt(os.getxattr, d + "/heir", "system.posix_acl_access"),
                attempt(os.getxattr, d + "/dir", "system.posix_acl_default") == default]
    os.chmod(d + "/f", 0o600)
    answers.append(as_uid(1000, 1000, [], lambda: attempt(get, d + "/f")))
    return answers


def temporary_files_without_a_name(d):
    fd = attempt(os.open, d, os.O_TMPFILE | os.O_RDWR, 0o600)
    if isinstance(fd, str):
        return fd
    os.write(fd, b"hidden")
    answers = [os.fstat(fd).st_nlink, os.listdir(d),
               libc.linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, (d + "/named").encode(), 0x400)]
    os.close(fd)
    answers.append(get(d + "/named"))
    return answers


def times_move_when_they_must(d):
    put(d + "/f", b"x")
    os.utime(d + "/f", ns=(10**18 + 123456789, 10**18 + 987654321))
    before = os.stat(d + "/f")
    answers = [before.st_atime_ns, before.st_mtime_ns]
    with open(d + "/f", "r+b") as file:
        file.write(b"y")
    written = os.stat(d + "/f")
    answers += [written.st_mtime_ns > 10**18 + 987654321, written.st_ctime_ns >= before.st_ctime_ns,
                written.st_atime_ns == before.st_atime_ns]
    os.utime(d + "/f", ns=(5, 7))
    with open(d + "/f", "r+b"):
        pass
    os.chmod(d + "/f", 0o600)
    after = os.stat(d + "/f")
    answers += [after.st_mtime_ns, after.st_ctime_ns >= written.st_ctime_ns]
    fd = os.open(d + "/f", os.O_RDWR)
    os.pwrite(fd, b"late", 0)
    os.utime(fd, ns=(11, 13))
    os.fsync(fd)
    os.close(fd)
    answers.append(os.stat(d + "/f").st_mtime_ns)
    mark = os.stat(d).st_mtime_ns
    os.unlink(d + "/f")
    answers.append(os.stat(d).st_mtime_ns > mark)
    assert answers == [10**18 + 123456789, 10**18 + 987654321, True, True, True, 7, True, 13, True], answers
    return answers


def special_files(d):
    os.mkfifo(d + "/p")
    import socket
    sock = socket.socket(socket.AF_UNIX)
    here = os.open(".", os.O_RDONLY)
    os.chdir(d)
    sock.bind("s")
    os.fchdir(here)
    os.close(here)
    answers = [brief(d + "/p")[0], brief(d + "/s")[0], attempt(os.mknod, d + "/n", stat.S_IFCHR | 0o600, os.makedev(1, 3)),
               attempt(os.mknod, d + "/r", stat.S_IFREG | 0o640)]
    answers += [os.major(os.stat(d + "/n").st_rdev), os.minor(os.stat(d + "/n").st_rdev), brief(d + "/r")]
    pid = os.fork()
    if pid == 0:
        with open(d + "/p", "wb") as pipe:
            pipe.write(b"through")
        os._exit(0)
    answers.append(get(d + "/p"))
    os.waitpid(pid, 0)
    sock.close()
    return answers


def reads_end_at_the_size(d):
    put(d + "/f", b"0123456789" * 1000)
    fd = os.open(d + "/f", os.O_RDONLY)
    answers = [len(os.pread(fd, 20000, 0)), os.pread(fd, 100, 9995), os.pread(fd, 100, 10000), os.pread(fd, 0, 0),
               attempt(os.write, fd, b"x")]
    os.close(fd)
    assert answers[:4] == [10000, b"56789", b"", b""], answers
    return answers


def statfs_says_the_same_block_size(d):
    return os.statvfs(d).f_namemax, os.statvfs(d).f_frsize


QUESTIONS = [value for value in list(globals().values())
             if callable(value) and getattr(value, "__code__", None) and value.__code__.co_varnames[:1] == ("d",)
             and value.__code__.co_argcount == 1]


def main():
    failed = False
    os.umask(0o022)
    for question in QUESTIONS:
        directory = os.path.join(sys.argv[1], question.__name__)
        os.mkdir(directory)
        try:
            answer = question(directory)
        except (AssertionError, OSError) as error:
            answer = f"WRONG {type(error).__name__} {error}"
        print(f"{question.__name__}: {str(answer).replace(sys.argv[1], 'DIR')}")
        failed |= str(answer).startswith("WRONG")
    return failed


if __name__ == "__main__":
    sys.exit(main())
