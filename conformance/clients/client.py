"""A long-running client, like a server: client.py LABEL reads lines, which are "find" or "sign".

It keeps its session and the handle of the key with that label. After an error it prints the error. The next "find"
opens a new session."""

import os
import sys

from PyKCS11 import (
    CKA_CLASS, CKA_LABEL, CKF_RW_SESSION, CKF_SERIAL_SESSION, CKM_ECDSA, CKO_PRIVATE_KEY, Mechanism, PyKCS11Error,
    PyKCS11Lib,
)

library = PyKCS11Lib()
library.load(os.environ["MODULE"])


class Client:
    def __init__(self, label):
        self.label = label
        self.session = self.key = None

    def begin(self):
        slots = library.getSlotList(tokenPresent=True)
        slot = next(s for s in slots if library.getTokenInfo(s).label.strip() == os.environ["TOKEN"])
        library.closeAllSessions(slot)
        self.session = library.openSession(slot, CKF_SERIAL_SESSION | CKF_RW_SESSION)
        self.session.login(os.environ["PIN"])

    def find(self):
        if not self.session:
            self.begin()
        keys = self.session.findObjects([(CKA_CLASS, CKO_PRIVATE_KEY), (CKA_LABEL, self.label)])
        self.key = keys[0] if keys else None
        return "found" if keys else "no such key"

    def sign(self):
        if not self.key:
            return "no such key"
        self.session.sign(self.key, bytes(32), Mechanism(CKM_ECDSA, None))
        return "signed"


client = Client(sys.argv[1])
for line in sys.stdin:
    try:
        print({"find": client.find, "sign": client.sign}[line.strip()](), flush=True)
    except PyKCS11Error as error:
        client.session = client.key = None
        print(error, flush=True)
