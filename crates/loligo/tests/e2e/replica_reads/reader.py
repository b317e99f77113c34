"""Reads through librados with the flags that let any copy answer, which the Python binding has for omap only.

    reader.py COUNT OBJECT FLAGS    reads an object so often; prints what it found
    reader.py check SECONDS         writes and reads objects at once; fails when a read finds what is older than what any
                                    client knew when the read began, or what nobody has written yet; and when no read
                                    met a write of its object
"""
import ctypes
import sys
import threading
import time

BALANCE = 1
OBJECTS = 12
READERS = 6
# As long as it may take beyond its time until a read has met a write.
PROOF_SECONDS = 60

lib = ctypes.CDLL("librados.so.2")
lib.rados_create_read_op.restype = ctypes.c_void_p


def must(result, what):
    if result < 0:
        raise OSError(-result, what)
    return result


class Client:
    def __init__(self):
        cluster = ctypes.c_void_p()
        must(lib.rados_create(ctypes.byref(cluster), b"admin"), "create")
        must(lib.rados_conf_read_file(cluster, None), "conf")
        must(lib.rados_connect(cluster), "connect")
        self.io = ctypes.c_void_p()
        must(lib.rados_ioctx_create(cluster, b"rbd", ctypes.byref(self.io)), "ioctx")

    def write(self, name, data):
        must(lib.rados_write_full(self.io, name, data, ctypes.c_size_t(len(data))), "write")

    def read(self, name, flags):
        op = ctypes.c_void_p(lib.rados_create_read_op())
        buffer, found, result = ctypes.create_string_buffer(64), ctypes.c_size_t(), ctypes.c_int()
        lib.rados_read_op_read(op, ctypes.c_uint64(0), ctypes.c_size_t(64), buffer, ctypes.byref(found), ctypes.byref(result))
        answer = lib.rados_read_op_operate(op, self.io, name, ctypes.c_int(flags))
        lib.rados_release_read_op(op)
        must(answer, "read")
        return buffer.raw[:found.value]


def check(seconds):
    wrong, counts = [], [0, 0, 0]
    begun, known = [0] * OBJECTS, [0] * OBJECTS
    locks = [threading.Lock() for _ in range(OBJECTS)]
    clients = [Client() for _ in range(3)]
    for at in range(OBJECTS):
        clients[0].write(b"n%d" % at, b"0")
    begin = time.monotonic()

    def goes_on():
        limit = seconds if all(counts) else seconds + PROOF_SECONDS
        return time.monotonic() < begin + limit and not wrong

    def work(number, act):
        try:
            turn = number
            while goes_on():
                turn += 1
                act(clients[number % len(clients)], turn % OBJECTS)
        except Exception as error:
            wrong.append(f"worker {number}: {error!r}")

    def write(client, at):
        with locks[at]:
            begun[at] += 1
            client.write(b"n%d" % at, b"%d" % begun[at])
            known[at] = max(known[at], begun[at])
        counts[0] += 1

    def read(client, at):
        least = known[at]
        found = int(client.read(b"n%d" % at, BALANCE))
        if not least <= found <= begun[at]:
            wrong.append(f"n{at}: found {found}, known was {least}, begun {begun[at]}")
        # What one client was told binds all others.
        known[at] = max(known[at], found)
        counts[1] += 1
        counts[2] += begun[at] > least

    acts = [write] * 2 + [read] * READERS
    threads = [threading.Thread(target=work, args=(number, act)) for number, act in enumerate(acts)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(f"{counts[0]} writes, {counts[1]} reads, {counts[2]} of them of what was being overwritten")
    if not wrong and not all(counts):
        wrong.append("nothing was read that was being overwritten: this proves nothing")
    sys.exit("\n".join(wrong) or 0)


if sys.argv[1] == "check":
    check(float(sys.argv[2]))
client = Client()
print({client.read(sys.argv[2].encode(), int(sys.argv[3])) for _ in range(int(sys.argv[1]))})
