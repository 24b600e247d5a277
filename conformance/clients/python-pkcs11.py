import contextlib
import os
import sys

import pkcs11

library = pkcs11.lib(os.environ["MODULE"])
session = key = None
for line in sys.stdin:
    try:
        if line == "find\n":
            if not session:
                session = library.get_token(token_label=os.environ["TOKEN"]).open(user_pin=os.environ["PIN"])
            key = session.get_key(label="key", object_class=pkcs11.ObjectClass.PRIVATE_KEY)
            print("found", flush=True)
        else:
            key.sign(bytes(32), mechanism=pkcs11.Mechanism.ECDSA)
            print("signed", flush=True)
    except pkcs11.PKCS11Error as error:
        print(type(error).__name__, flush=True)
        if session:
            # close() logs out first. This fails if another program initialised the token again.
            with contextlib.suppress(pkcs11.UserNotLoggedIn):
                session.close()
        session = key = None
