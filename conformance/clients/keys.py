import os

from PyKCS11 import *
from PyKCS11.LowLevel import *

library = PyKCS11Lib()
library.load(os.environ["MODULE"])
slots = library.getSlotList(tokenPresent=True)
slot = next(s for s in slots if library.getTokenInfo(s).label.strip() == os.environ["TOKEN"])
session = library.openSession(slot, CKF_SERIAL_SESSION | CKF_RW_SESSION)
session.login(os.environ["PIN"])

public, private = session.generateKeyPair(
    [(CKA_TOKEN, CK_TRUE), (CKA_MODULUS_BITS, 2048), (CKA_PUBLIC_EXPONENT, (1, 0, 1)), (CKA_VERIFY, CK_TRUE),
     (CKA_ENCRYPT, CK_TRUE), (CKA_WRAP, CK_TRUE), (CKA_LABEL, "python"), (CKA_ID, (1,))],
    [(CKA_TOKEN, CK_TRUE), (CKA_SIGN, CK_TRUE), (CKA_DECRYPT, CK_TRUE), (CKA_UNWRAP, CK_TRUE),
     (CKA_LABEL, "python"), (CKA_ID, (1,))],
)
found = session.findObjects([(CKA_CLASS, CKO_PRIVATE_KEY), (CKA_LABEL, "python")])
assert len(found) == 1

message = b"a message"
signature = session.sign(found[0], message, Mechanism(CKM_SHA256_RSA_PKCS, None))
assert session.verify(public, message, signature, Mechanism(CKM_SHA256_RSA_PKCS, None))
assert not session.verify(public, b"another", signature, Mechanism(CKM_SHA256_RSA_PKCS, None))

aes = session.generateKey([(CKA_CLASS, CKO_SECRET_KEY), (CKA_KEY_TYPE, CKK_AES), (CKA_VALUE_LEN, 32),
                           (CKA_EXTRACTABLE, CK_TRUE), (CKA_ENCRYPT, CK_TRUE), (CKA_DECRYPT, CK_TRUE)],
                          Mechanism(CKM_AES_KEY_GEN, None))
cbc = Mechanism(CKM_AES_CBC_PAD, bytes(16))
encrypted = session.encrypt(aes, message, cbc)
wrapped = session.wrapKey(public, aes, Mechanism(CKM_RSA_PKCS, None))
unwrapped = session.unwrapKey(private, wrapped,
                              [(CKA_CLASS, CKO_SECRET_KEY), (CKA_KEY_TYPE, CKK_AES), (CKA_DECRYPT, CK_TRUE)],
                              Mechanism(CKM_RSA_PKCS, None))
assert bytes(session.decrypt(unwrapped, encrypted, cbc)) == message

assert len(session.generateRandom(32)) == 32
assert bytes(session.digest(message, Mechanism(CKM_SHA256, None))).hex() == os.popen("printf 'a message' | sha256sum").read().split()[0]

modulus, exponent = session.getAttributeValue(public, [CKA_MODULUS, CKA_PUBLIC_EXPONENT])
open("signature", "wb").write(bytes(signature))
open("message", "wb").write(message)
open("key.cnf", "w").write(f"asn1=SEQUENCE:rsa\n[rsa]\nn=INTEGER:0x{bytes(modulus).hex()}\ne=INTEGER:65537\n")

for key in (public, private):
    session.destroyObject(key)
assert not session.findObjects([(CKA_LABEL, "python")])
session.logout()
session.closeSession()
