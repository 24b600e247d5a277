# What makes a path valid, beside its signatures. OpenSSL makes the certificates and the CRLs.
ca='basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign,cRLSign\n'
# make NAME ISSUER EXTENSIONS MORE: a certificate with a key of its own.
make() {
    [ -e $1.key ] || openssl genpkey -algorithm ec -pkeyopt ec_paramgen_curve:P-256 -out $1.key
    openssl req -new -key $1.key -subj "${SUBJECT:-/CN=$1}" -out $1.csr
    printf "$3" > $1.ext
    local signer="-CA $2.pem -CAkey $2.key -CAcreateserial"
    [ $1 != $2 ] || signer="-signkey $1.key"
    openssl x509 -req -in $1.csr $signer -extfile $1.ext -days 99 "${@:4}" -out $1.pem
}
valid() { jeton cert verify $1.pem --roots root.pem --untrusted sub.pem "${@:2}"; }
wrong() { fails 1 valid "${@:2}" | grep "not valid: .*$1"; }
make root root "$ca"
make sub root "$ca"
make leaf sub 'subjectAltName=DNS:leaf.example.org\n'
make other sub 'subjectAltName=DNS:other.example.org\n'
valid leaf
openssl pkcs12 -export -inkey leaf.key -in leaf.pem -passout pass:secret -out leaf.p12
fails 5 jeton cert info leaf.p12 | grep 'no password was given'
export JETON_FILE_PIN=secret
jeton cert info leaf.p12 | grep CN=leaf
jeton cert verify leaf.p12 --roots root.pem --untrusted sub.pem
unset JETON_FILE_PIN

# crl FILE CA NUMBER START EXTENSIONS REVOKED: the times are days from now.
day() { date -u -d "$1 days" +%y%m%d%H%M%SZ; }
crl() {
    printf '[ca]\ndefault_ca=ca\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\n[e]\n%b\n' "$5" > crl.conf
    : > index
    echo $3 > number
    local one
    for one in "${@:6}"; do openssl ca -config crl.conf -revoke $one.pem -keyfile $2.key -cert $2.pem; done
    local extensions=
    [ -z "$5" ] || extensions='-crlexts e'
    openssl ca -config crl.conf -gencrl $extensions -keyfile $2.key -cert $2.pem -out $1.crl \
        -crl_lastupdate $(day $4) -crl_nextupdate $(day $(($4 + 9)))
}
crl root root 01 -1 ''
crl old sub 01 -1 ''
crl revoked sub 02 -2 '' leaf
crl same sub 02 -1 ''
crl future sub 09 3 ''
crl ended sub 03 -20 ''
crl released sub 03 -1 ''
SUBJECT=/CN=sub make forger forger "$ca"
crl forged forger 09 -1 ''
crl delta sub 09 -1 '2.5.29.27=critical,DER:020101'
with() { local one; for one in root "$@"; do printf -- '--crl %s.crl ' $one; done; }
valid leaf $(with old)
valid other $(with old revoked)
# The number counts, not the time or the place. One from the future does not count.
for crls in revoked 'old revoked' 'revoked old' 'revoked future' 'future revoked old' 'forged revoked' 'revoked forged'; do
    wrong 'is revoked' leaf $(with $crls)
done
for crls in 'same revoked released' 'released revoked' 'revoked same'; do valid leaf $(with $crls); done
for crls in future forged 'old delta'; do wrong 'no CRL says' leaf $(with $crls); done
wrong 'a CRL has ended' leaf $(with old ended)
# The name of a CA may be written in another way (RFC 5280, 7.1), and then a CRL revokes as much.
for subject in /CN=SUB '/CN= sub'; do
    openssl req -x509 -key sub.key -subj "$subject" -addext keyUsage=keyCertSign,cRLSign -out named.pem
    cp sub.key named.key
    crl named named 04 -1 '' leaf
    wrong 'is revoked' leaf $(with named)
    wrong 'is revoked' leaf $(with old named)
    valid other $(with named)
done
crl named named 09 -1 '2.5.29.27=critical,DER:020101'
wrong 'no CRL says' leaf $(with old named)
# A block with an unknown label may be a CRL.
for label in CRL 'CERTIFICATE REVOCATION LIST'; do
    sed "s/X509 CRL/$label/" revoked.crl > labelled.crl
    cat old.crl labelled.crl > both.crl
    for crls in labelled both; do fails 7 valid leaf $(with $crls) | grep 'a block of the PEM file has an unknown label'; done
done
# A CRL of a distribution point is for the certificates with this point.
make point sub 'crlDistributionPoints=URI:http://a/a.crl\n'
make elsewhere sub 'crlDistributionPoints=URI:http://b/a.crl\n'
crl point sub 01 -1 'issuingDistributionPoint=critical,@point\n[point]\nfullname=URI:http://a/a.crl\n' point
crl clean sub 01 -1 'issuingDistributionPoint=critical,@point\n[point]\nfullname=URI:http://a/a.crl\n'
for name in leaf elsewhere; do wrong 'no CRL says' $name $(with point); done
valid leaf $(with point old)
valid point $(with clean)
for crls in point 'point released' 'released point'; do wrong 'is revoked' point $(with $crls); done
# A CA whose key usage does not allow CRLs has none.
make root root 'basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n'
wrong 'no CRL says' leaf $(with old)

# A root counts like the other certificates.
for extensions in 'a critical extension is not known:1.2.3.4=critical,DER:0500' 'not for this purpose:extendedKeyUsage=clientAuth' \
    'number of CAs below it:basicConstraints=critical,CA:TRUE,pathlen:0'; do
    more=${extensions#*:}
    [[ $more == basic* ]] || more="basicConstraints=critical,CA:TRUE\n$more"
    make root root "$more\n"
    wrong "${extensions%%:*}" leaf
    # Another root with this name and this key may be right.
    cp root.pem first.pem
    make root root "$ca"
    cat first.pem root.pem > both.pem
    jeton cert verify leaf.pem --roots both.pem --untrusted sub.pem
done
make root root "$ca" -days 9
wrong 'has ended' leaf --at $(date -d '20 days' +%s)

# What each purpose needs.
all='server-auth client-auth code-signing email-protection time-stamping ocsp-signing'
holder() { make holder sub "subjectAltName=DNS:a.example.org\n$1"; }
expect() {
    local purpose
    for purpose in $all; do
        if [[ " $2 " == *" $purpose "* ]]; then valid holder --purpose $purpose; else wrong "$1" holder --purpose $purpose; fi
    done
}
four='server-auth client-auth code-signing email-protection'
holder ''
expect 'not for this purpose' "$four"
uses='extendedKeyUsage=serverAuth,clientAuth,codeSigning,emailProtection,OCSPSigning\n'
holder "$uses"
expect 'not for this purpose' "$four ocsp-signing"
for usage in cRLSign keyCertSign dataEncipherment; do
    holder "${uses}keyUsage=$usage\n"
    expect 'not allow this purpose\|not for this purpose' ''
done
holder "${uses}keyUsage=keyEncipherment\n"
expect 'not allow this purpose\|not for this purpose' 'server-auth email-protection'
holder "${uses}keyUsage=keyAgreement\n"
expect 'not allow this purpose\|not for this purpose' 'server-auth client-auth email-protection'
holder "${uses}keyUsage=nonRepudiation\n"
expect 'not allow this purpose\|not for this purpose' 'email-protection ocsp-signing'
for uses in timeStamping critical,timeStamping,codeSigning; do
    holder "extendedKeyUsage=$uses\n"
    wrong 'not for this purpose' holder --purpose time-stamping
done
holder 'extendedKeyUsage=critical,timeStamping\nkeyUsage=digitalSignature,keyEncipherment\n'
wrong 'not allow this purpose' holder --purpose time-stamping
holder 'extendedKeyUsage=critical,timeStamping\nkeyUsage=digitalSignature\n'
valid holder --purpose time-stamping

signs='keyUsage=digitalSignature\n'
# A mailbox and a host in a subject are names.
for row in 'permitted;email:example.org /emailAddress=x@evil.test /emailAddress=x@example.org' \
    'excluded;email:evil.test /emailAddress=x@evil.test /emailAddress=x@example.org' \
    'permitted;DNS:example.org /CN=www.evil.test /CN=www.example.org' \
    'excluded;DNS:evil.test /CN=www.evil.test /CN=www.example.org'; do
    read -r constraint bad good <<< "$row"
    make sub root "${ca}nameConstraints=critical,$constraint\n"
    SUBJECT=$good make named sub "$signs"
    valid named
    SUBJECT=$bad make named sub "$signs"
    wrong 'name constraints' named
done

# An IPv4 address in an IPv6 address does not pass the constraints of IPv4.
for constraint in 'excluded;IP:10.0.0.0/255.0.0.0' 'permitted;IP:10.0.0.0/255.0.0.0'; do
    make sub root "${ca}nameConstraints=critical,$constraint\n"
    make mapped sub 'subjectAltName=IP:::ffff:10.0.0.1\n'
    wrong 'name constraints' mapped
done

# A key that no check accepts is not valid: RSA below 2048 bits, of an unknown type, or in another encoding.
make sub root "$ca"
openssl genrsa -out short.key 1024
openssl genpkey -algorithm ec -pkeyopt ec_paramgen_curve:brainpoolP256r1 -out brainpool.key
openssl genpkey -algorithm ec -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:explicit -out explicit.key
openssl genrsa -out long.key 2048
for name in short brainpool explicit; do
    make $name sub "$signs"
    wrong "the key of CN=$name is refused" $name
done
wrong 'RSA with fewer than 2048 bits' short
make long sub "$signs"
valid long
# A CA whose key is refused, and one whose RSA key has a factor.
make short root "$ca"
make leaf short "$signs"
fails 1 jeton cert verify leaf.pem --roots root.pem --untrusted short.pem | grep 'CN=short is refused: RSA with fewer than 2048 bits'
make leaf sub "$signs"
# The crate does not know these constraints. The cause is not that of a name which is excluded.
for constraint in 'permitted;email:example.org' 'excluded;email:evil.test' 'permitted;URI:example.org'; do
    make limited root "${ca}nameConstraints=critical,$constraint\n"
    make holder limited 'subjectAltName=email:a@example.org,URI:http://example.org/\n'
    fails 1 jeton cert verify holder.pem --roots root.pem --untrusted limited.pem | grep 'of a type that is not supported'
done
make limited root "${ca}nameConstraints=critical,permitted;email:example.org\n"
make holder limited 'subjectAltName=email:a@evil.test\n'
fails 1 jeton cert verify holder.pem --roots root.pem --untrusted limited.pem | grep 'constraints of a CA exclude a name'
# A root with the name and without the key, and a long path.
SUBJECT=/CN=root make stranger stranger "$ca"
fails 1 jeton cert verify leaf.pem --roots stranger.pem --untrusted sub.pem | grep 'no certificate with the name of a CA has the key'
above=root
: > seven.pem
for below in 1 2 3 4 5 6 7; do
    make ca$below $above "$ca"
    cat ca$below.pem >> seven.pem
    above=ca$below
done
make deep $above "$signs"
fails 1 jeton cert verify deep.pem --roots root.pem --untrusted seven.pem | grep 'no path with at most 6 CAs'
# Names and constraints that would take minutes to compare.
python3 - <<'END' > many.cnf
print("[e]\nbasicConstraints=critical,CA:TRUE\nnameConstraints=critical,@n\n[n]")
for at in range(2500):
    print(f"excluded;dirName.{at}=d{at}")
for at in range(2500):
    print(f"[d{at}]\nO={at}")
END
openssl req -new -key sub.key -subj /CN=sub -out sub.csr
openssl x509 -req -in sub.csr -CA root.pem -CAkey root.key -extfile many.cnf -extensions e -days 9 -out sub.pem
python3 -c '
print("[req]\ndistinguished_name=d\nprompt=no\nstring_mask=utf8only\n[d]")
for at in range(800):
    print(f"{at}.OU={at:060}")' > long.cnf
openssl req -new -key leaf.key -config long.cnf -out many.csr
openssl x509 -req -in many.csr -CA sub.pem -CAkey sub.key -days 9 -extfile leaf.ext -out many.pem
fails 1 timeout 60 jeton cert verify many.pem --roots root.pem --untrusted sub.pem | grep 'name constraints'
make sub root "$ca"

# Everyone can sign with a key of small order: the point is the neutral one, and so is that of the signature.
make sub root "$ca"
python3 - <<'END' > small.pub
import base64
key = bytes.fromhex("302a300506032b6570032100") + (1).to_bytes(32, "little")
print(f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(key).decode()}\n-----END PUBLIC KEY-----")
END
make weak sub "$signs" -force_pubkey small.pub
wrong 'the key of CN=weak is refused: .*small order' weak
openssl genpkey -algorithm ed25519 -out small.key
make small root "$ca"
make forged small "$signs"
make small root "$ca" -force_pubkey small.pub
openssl x509 -in forged.pem -outform DER | head -c -64 > forged.der
{ cat forged.der; printf '\1'; head -c 63 /dev/zero; } | openssl x509 -inform DER -out forged.pem
fails 1 jeton cert verify forged.pem --roots root.pem --untrusted small.pem | grep 'the key of CN=small is refused'
