"""Forks while four threads draw random numbers. Each child ends by sys.exit or by an exception.

exit.rs runs this program. Its arguments are the module and the number of children.
"""

import ctypes
import os
import signal
import sys
import threading

CKF_SERIAL_SESSION = 4

module = ctypes.CDLL(sys.argv[1])


def call(function, *arguments):
    code = getattr(module, function)(*arguments)
    if code != 0:
        raise OSError(f"{function}: {code:#x}")


def draw(slot):
    session = ctypes.c_ulong()
    call("C_OpenSession", slot, ctypes.c_ulong(CKF_SERIAL_SESSION), None, None, ctypes.byref(session))
    room = ctypes.create_string_buffer(4096)
    while not done:
        call("C_GenerateRandom", session, room, ctypes.c_ulong(len(room)))


class End(Exception):
    pass


call("C_Initialize", None)
slots, count = (ctypes.c_ulong * 9)(), ctypes.c_ulong(9)
call("C_GetSlotList", ctypes.c_ubyte(1), slots, ctypes.byref(count))
done = False
threads = [threading.Thread(target=draw, args=(ctypes.c_ulong(slots[0]),)) for _ in range(4)]
for thread in threads:
    thread.start()

for number in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        # The signal kills a child that waits for ever.
        signal.alarm(60)
        sys.excepthook = lambda *_: None
        if number % 2 == 0:
            sys.exit(0)
        raise End
    _, status = os.waitpid(child, 0)
    if status != number % 2 << 8:
        print(f"child {number} has the status {status:#x}", file=sys.stderr)
        os._exit(1)

done = True
for thread in threads:
    thread.join()
call("C_Finalize", None)
