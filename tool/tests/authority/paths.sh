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

# Everyone can sign with a key of small order: the point is the neutral one, and so is that of the signature.
make sub root "$ca"
python3 - <<'END' > small.pub
import base64
key = bytes.fromhex("302a300506032b6570032100") + (1).to_bytes(32, "little")
print(f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(key).decode()}\n-----END PUBLIC KEY-----")
END
make weak sub "$signs" -force_pubkey small.pub
wrong 'is no secret' weak
openssl genpkey -algorithm ed25519 -out small.key
make small root "$ca"
make forged small "$signs"
make small root "$ca" -force_pubkey small.pub
openssl x509 -in forged.pem -outform DER | head -c -64 > forged.der
{ cat forged.der; printf '\1'; head -c 63 /dev/zero; } | openssl x509 -inform DER -out forged.pem
fails 1 jeton cert verify forged.pem --roots root.pem --untrusted small.pem | grep 'is no secret'
