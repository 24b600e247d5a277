# A compromised key gets no certificate: in no encoding, for no other public key with its secret, of no CA, by no renewal.
for label in ca ed ml; do jeton token init --label $label; done
jeton key generate --token ca --type ec:p256 --label ca
jeton cert self-sign --token ca --label ca --subject CN=Root --ca --import --out ca.pem
jeton ca init --token ca --label ca
CA='--token ca --label ca'
issue() { jeton cert issue $1.csr $CA --profile ${2:-tls-client} --subject CN=$1 --out $1.pem; }
compromise() { jeton cert revoke ./$1.pem --reason key-compromise; }
cat > spki.py <<'END'
# Writes a request with another encoding of its public key, or its first part, or with a signature.
import sys
def read(der, at):
    length, start = der[at + 1], at + 2
    if length & 128:
        start += length & 127
        length = int.from_bytes(der[at + 2:start], 'big')
    return der[at:start + length], der[start:start + length]
def members(der):
    content, all, at = read(der, 0)[1], [], 0
    while at < len(content):
        all.append(read(content, at)[0])
        at += len(all[-1])
    return all
def tlv(tag, *parts):
    content = b''.join(parts)
    size = len(content).to_bytes(4, 'big').lstrip(b'\0') or b'\0'
    return bytes([tag]) + (size if len(content) < 128 else bytes([128 | len(size)]) + size) + content
what, source, *more = sys.argv[1:]
info, algorithm, signature = members(open(source, 'rb').read())
if what == 'sign':
    out = tlv(0x30, open(more[0], 'rb').read(), algorithm, tlv(3, b'\0', open(more[1], 'rb').read()))
else:
    version, subject, key, attributes = members(info)
    oid, bits = members(members(key)[0])[0], bytearray(members(key)[1])
    parameters = {'null': b'\5\0', 'curve': bytes.fromhex('06082a8648ce3d030107'), 'unused': b''}[what]
    if what == 'unused':
        bits[-len(read(bits, 0)[1])] = 1
        bits[-1] &= 0xfe
    out = tlv(0x30, version, subject, tlv(0x30, tlv(0x30, oid, parameters), bytes(bits)), attributes)
sys.stdout.buffer.write(out)
END
# Another encoding of a key without parameters.
for kind in ed25519 ml-dsa-65; do
    token=${kind:0:2}
    jeton key generate --token $token --type $kind --label $token
    jeton csr --token $token --label $token --subject CN=$token --format der --out $token.csr
    issue $token
    compromise $token
    fails 7 jeton cert issue $token.csr $CA --profile tls-client | grep 'was revoked because the key was compromised'
    for what in null curve unused; do
        python3 spki.py $what $token.csr > info
        jeton sign info --token $token --label $token --out signature --force
        python3 spki.py sign $token.csr info signature > $what.csr
        fails 7 jeton cert issue $what.csr $CA --profile tls-client | grep 'parameters that its algorithm does not have'
    done
done
# The negative of a point has the negative private key.
python3 -c '
n = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551
for name, d in ("plus", 12345678901234567890), ("minus", n - 12345678901234567890):
    curve = bytes.fromhex("a00a06082a8648ce3d030107")
    open(name, "wb").write(bytes.fromhex("3031020101" "0420") + d.to_bytes(32, "big") + curve)'
for name in plus minus; do
    openssl ec -inform DER -in $name -out $name.key
    openssl req -new -key $name.key -subj /CN=$name -out $name.csr
done
issue plus
openssl req -new -key plus.key -subj /CN=held -out held.csr
issue held
jeton cert revoke ./held.pem --reason hold
compromise plus | grep 'has the same key or shares a secret with it'
fails 7 issue minus | grep 'was revoked because the key was compromised'
fails 7 jeton cert release ./held.pem | grep 'was revoked because the key was compromised'
[ "$(jeton cert issued --status held | wc -l)" = 1 ]
# A key from which the compromised key follows: RSA with a common prime, and the other points of secp256k1 for a secret.
python3 -c '
import subprocess
p = 2**256 - 2**32 - 977
n = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141
root = pow(3, (n - 1) // 3, n)
d = 12345678901234567890
for name, d in ("first", d), ("second", d * root % n), ("third", n - d * root * root % n):
    curve = bytes.fromhex("a00706052b8104000a")
    open(name, "wb").write(bytes.fromhex("302e020101" "0420") + d.to_bytes(32, "big") + curve)
def prime(bits):
    return int(subprocess.check_output(["openssl", "prime", "-generate", "-bits", str(bits)]))
shared = prime(1024)
for name in "one", "other":
    q = prime(1024)
    d = pow(65537, -1, (shared - 1) * (q - 1))
    values = [0, shared * q, 65537, d, shared, q, d % (shared - 1), d % (q - 1), pow(q, -1, shared)]
    lines = "".join(f"n{at}=INTEGER:{value}\n" for at, value in enumerate(values))
    open(name + ".conf", "w").write(f"asn1=SEQUENCE:key\n[key]\n{lines}")'
for name in first second third; do openssl ec -inform DER -in $name -out $name.key; done
for name in one other; do
    openssl asn1parse -genconf $name.conf -noout -out $name.der
    openssl rsa -inform DER -in $name.der -out $name.key
done
for name in first second third one other; do openssl req -new -key $name.key -subj /CN=$name -out $name.csr; done
issue first sub-ca
for name in one other; do issue $name; done
compromise one | grep 'of CN=other has the same key or shares a secret with it'
compromise first
for name in second third; do
    fails 7 issue $name sub-ca | grep 'was revoked because the key was compromised'
done
fails 7 jeton cert renew ./other.pem $CA | grep 'was revoked because the key was compromised'
# A composite key has the secrets of both halves: alone, and in other composites.
cat > halves.py <<'END'
# Writes a composite private key of a seed of ML-DSA-65 and a key on P-256, or the seed alone.
import sys
def tlv(tag, *parts):
    content = b''.join(parts)
    return bytes([tag, len(content)]) + content
seed, out, *more = sys.argv[1:]
seed, second = bytes([int(seed)]) * 32, b''.join(open(name, 'rb').read() for name in more)
oid, key = ('2b060105050706' '2d', seed + second) if more else ('608648016503040312', tlv(0x80, seed))
open(out, 'wb').write(tlv(0x30, tlv(2, b'\0'), tlv(0x30, tlv(6, bytes.fromhex(oid))), tlv(4, key)))
END
jeton token init --label halves
for name in half own; do
    openssl ecparam -name prime256v1 -genkey -noout -out $name.key
    openssl ec -in $name.key -no_public -outform DER -out $name.der
done
python3 halves.py 7 both.p8 half.der
python3 halves.py 7 alone.p8
python3 halves.py 7 left.p8 own.der
python3 halves.py 8 right.p8 half.der
python3 halves.py 9 free.p8 own.der
for name in both alone left right free; do
    jeton key import $name.p8 --token halves --label $name
    jeton csr --token halves --label $name --subject CN=$name --out $name.csr
done
openssl req -new -key half.key -subj /CN=later -out later.csr
for name in both left later; do issue $name; done
compromise both > said
grep 'of CN=left has the same key or shares a secret' said
grep 'of CN=later has the same key or shares a secret' said
for name in alone left right later; do
    rm -f $name.pem
    fails 7 issue $name | grep 'was revoked because the key was compromised'
done
issue free
# One half alone is compromised.
compromise free
openssl req -new -key own.key -subj /CN=half -out half.csr
fails 7 issue half | grep 'was revoked because the key was compromised'
# Keys that anyone finds: the private keys 1 and 65536.
python3 -c '
for number in 1, 65536:
    curve = bytes.fromhex("a00a06082a8648ce3d030107")
    open(f"k{number}", "wb").write(bytes.fromhex("3031020101" "0420") + number.to_bytes(32, "big") + curve)'
for number in 1 65536; do
    openssl ec -inform DER -in k$number -out k$number.key
    openssl req -new -key k$number.key -subj /CN=k$number -out k$number.csr
    fails 7 issue k$number | grep 'a point whose private key is a small number'
done
# A CA with such a key.
openssl req -x509 -key k65536.key -subj /CN=Weak -addext basicConstraints=critical,CA:TRUE -out weak-ca.pem
jeton token init --label weak
jeton key import k65536.key --token weak --label weak
fails 7 jeton ca init --token weak --label weak --ca-cert weak-ca.pem --issued weak.sqlite | grep 'the key of the CA is refused: .* a small number'
[ ! -e weak.sqlite ]
# A compromised certificate that cannot be read may have any key.
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout any.key -subj /CN=any -out any.csr
for damage in 3000 ''; do
    cp -p issued.sqlite damaged.sqlite
    python3 -c 'import sqlite3, sys
c = sqlite3.connect("damaged.sqlite")
c.execute("UPDATE certificate SET der = ? WHERE subject = ?", (bytes.fromhex(sys.argv[1]), "CN=one"))
c.commit()' "$damage"
    fails 8 jeton cert issue any.csr $CA --profile tls-client --issued damaged.sqlite | grep 'CN=one, whose key was compromised, is damaged'
done
# The key of the CA itself.
jeton csr --token ca --label ca --subject CN=own --out own.csr
fails 7 issue own | grep 'that of the CA'
# A CA with the key.
openssl req -x509 -key minus.key -subj /CN=Below -addext basicConstraints=critical,CA:TRUE -out below.pem
jeton key import minus.key --token ca --label below
fails 7 jeton ca init --token ca --label below --ca-cert below.pem | grep 'was revoked because the key was compromised'
fails 7 jeton cert self-sign --token ca --label below --subject CN=Below --ca | grep 'was revoked because the key was compromised'
fails 3 jeton cert self-sign --token ca --label below --subject CN=Below --issued none.sqlite --out self.pem
chmod 666 issued.sqlite
fails 9 jeton cert self-sign --token ca --label below --subject CN=Below --out self.pem | grep 'other users may write to the list'
chmod 600 issued.sqlite
[ ! -e self.pem ]
# Everyone can sign for ML-DSA with a vector of zeros: a request needs no private key.
python3 - <<'END'
def tlv(tag, *parts):
    content = b''.join(parts)
    size = len(content).to_bytes(2, 'big')
    return bytes([tag, 0x82]) + size + content if len(content) > 127 else bytes([tag, len(content)]) + content
algorithm = bytes.fromhex('300b0609608648016503040312')
name = bytes.fromhex('300f310d300b06035504030c045a65726f')
key = tlv(0x30, algorithm, tlv(3, b'\0' + bytes(1952)))
info = tlv(0x30, b'\2\1\0', name, key, b'\xa0\0')
open('zero.der', 'wb').write(tlv(0x30, info, algorithm, tlv(3, b'\0' + bytes(3309))))
END
fails 7 jeton cert issue zero.der $CA --profile tls-client | grep 'the public key is refused: an ML-DSA key with a short vector'
# RSA keys of a CA that no program can use, and a CA without the right to sign certificates.
for bits in 65536 400; do
    python3 -c 'import sys
def tlv(tag, content):
    size = len(content).to_bytes(3, "big")
    return bytes([tag, 0x83]) + size + content if len(content) > 127 else bytes([tag, len(content)]) + content
key = tlv(0x30, tlv(2, (2**int(sys.argv[1]) - 1).to_bytes(int(sys.argv[1]) // 8 + 1, "big")) + bytes.fromhex("0203010001"))
rsa = bytes.fromhex("300d06092a864886f70d0101010500")
open("large.der", "wb").write(tlv(0x30, rsa + tlv(3, b"\0" + key)))' $bits
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout l.key -subj /CN=L -out l.pem
    openssl req -new -key l.key -subj /CN=Large -out l.csr
    printf 'basicConstraints=critical,CA:TRUE\n' > l.ext
    openssl x509 -req -in l.csr -force_pubkey large.der -CA l.pem -CAkey l.key -days 9 -extfile l.ext -out large.pem
    fails 7 jeton cert import large.pem --token ca | grep 'the key of this CA is refused: a size that is not supported'
done
# It had its list before the key was known to be compromised.
jeton key generate --token ca --type ec:p256 --label late
jeton cert self-sign --token ca --label late --subject CN=Late --ca --out late-ca.pem
jeton ca init --token ca --label late --ca-cert late-ca.pem
jeton csr --token ca --label late --subject CN=late --out late.csr
openssl req -new -newkey rsa:2048 -noenc -keyout new.key -subj /CN=new -out new.csr
jeton cert issue new.csr --token ca --label late --ca-cert late-ca.pem --profile tls-client --out new.pem
issue late
compromise late
fails 7 jeton cert issue new.csr --token ca --label late --ca-cert late-ca.pem --profile tls-client \
    | grep 'was revoked because the key was compromised'
# An older list learns from the last CRL that a key was compromised.
openssl req -new -newkey rsa:2048 -noenc -keyout old.key -subj /CN=old -out old.csr
issue old
jeton cert revoke ./old.pem --reason superseded
cp -p issued.sqlite kept
compromise old
jeton crl $CA --out last.crl
cp -p kept issued.sqlite
jeton ca adopt last.crl $CA
fails 7 jeton cert issue old.csr $CA --profile tls-client | grep 'was revoked because the key was compromised'
# The key of an adopted certificate was never looked at: its modulus has the factor 3.
python3 -c '
def tlv(tag, content):
    size = len(content).to_bytes(2, "big")
    return bytes([tag, 0x82]) + size + content if len(content) > 127 else bytes([tag, len(content)]) + content
n = (3 * (2**2046 + 2**1000 + 1)).to_bytes(257, "big")
key = tlv(0x30, tlv(2, n) + bytes.fromhex("0203010001"))
rsa = bytes.fromhex("300d06092a864886f70d0101010500")
open("weak.der", "wb").write(tlv(0x30, rsa + tlv(3, b"\0" + key)))'
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout two.key -subj /CN=Two -out two.pem
openssl x509 -req -in new.csr -force_pubkey weak.der -CA two.pem -CAkey two.key -CAcreateserial -days 9 -out weak.pem
jeton token init --label two
jeton key import two.key --token two --label two
jeton ca init --token two --label two --ca-cert two.pem
jeton ca adopt weak.pem --token two --label two --ca-cert two.pem
jeton crl --token two --label two --ca-cert two.pem --number 1
fails 7 jeton cert renew ./weak.pem --token two --label two --ca-cert two.pem --profile tls-client \
    | grep 'the public key is refused: .* a factor below 752'
# The key of a CA is checked also in a certificate of version 1, and beside a serial number of 21 bytes.
openssl x509 -req -in new.csr -force_pubkey weak.der -signkey new.key -days 9 -out one.pem
printf 'basicConstraints=critical,CA:TRUE\n' > ca.ext
openssl x509 -req -in new.csr -force_pubkey weak.der -CA two.pem -CAkey two.key -days 9 -extfile ca.ext \
    -set_serial 0x7f00000000000000000000000000000000000000ff -out long.pem
for name in one long; do
    fails 7 jeton cert import $name.pem --token two | grep 'the key of this CA is refused: .* a factor below 752'
done
