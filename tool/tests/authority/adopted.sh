# A CA of OpenSSL with three certificates, of which one is revoked and one on hold, and its CRL 5, moves to a token.
mkdir -p demo/newcerts demo/private
cat > demo/cnf <<'END'
[ca]
default_ca = d
[d]
database = demo/index.txt
new_certs_dir = demo/newcerts
serial = demo/serial
crlnumber = demo/crlnumber
default_md = sha256
policy = p
default_days = 99
default_crl_days = 30
copy_extensions = copy
[p]
commonName = supplied
[v3]
basicConstraints = critical,CA:TRUE
[some]
issuingDistributionPoint = critical,@only
[only]
onlyCA = TRUE
[req]
string_mask = pkix
distinguished_name = p
END
touch demo/index.txt; echo 9000 > demo/serial; echo 05 > demo/crlnumber
ca() { openssl ca -batch -config demo/cnf -keyfile ca.key "$@"; }
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout ca.key -subj /CN=Old -out ca.csr
ca -selfsign -in ca.csr -extensions v3 -out ca.pem -startdate 20200101000000Z -enddate 20400101000000Z -notext
for name in a b c; do
    openssl req -new -newkey rsa:2048 -noenc -keyout key -subj /CN=$name -addext subjectAltName=DNS:$name.test -out $name.csr
    ca -cert ca.pem -in $name.csr -out $name.pem -notext
done
ca -cert ca.pem -revoke b.pem -crl_reason keyCompromise
ca -cert ca.pem -revoke c.pem -crl_hold holdInstructionReject
ca -cert ca.pem -gencrl -out demo/old.crl

jeton token init --label old
jeton key import ca.key --label old
jeton cert import ca.pem --label old
fails 3 jeton crl --label old
facts() { openssl crl -in "$1" -noout -text | grep 'Serial Number:\|Revocation Date\|Key Comp\|Certificate Hold'; }
openssl ocsp -no_nonce -issuer ca.pem -cert b.pem -reqout request
# Each source alone, and all together. The certificate of the CA is older than its list.
for source in demo/index.txt demo/old.crl demo 'demo/newcerts a.pem demo/index.txt'; do
    rm -f issued.sqlite new.crl
    jeton ca init --label old
    fails 7 jeton crl --label old | grep 'may have signed CRLs'
    fails 7 jeton ocsp request --label old --out answer | grep 'may have signed CRLs'
    jeton ca adopt $source --label old
    case $source in
    *index.txt) fails 7 jeton crl --label old; number='--number 6' ;;
    *) number= ;;
    esac
    jeton crl --label old $number --out new.crl
    openssl crl -in new.crl -noout -crlnumber | grep '0x0*6$'
    diff <(facts demo/old.crl) <(facts new.crl)
    openssl verify -crl_check -CRLfile new.crl -CAfile ca.pem a.pem
    fails 2 openssl verify -crl_check -CRLfile new.crl -CAfile ca.pem b.pem
done
jeton ca adopt demo --label old
[ "$(jeton cert issued --status revoked | grep -c CN=b)" = 1 ] && [ "$(jeton cert issued --status held | grep -c CN=c)" = 1 ]
jeton cert release c.pem
jeton cert revoke a.test
jeton cert show b --out again.pem
cmp again.pem b.pem
# A second reading takes nothing back.
jeton ca adopt demo --label old
[ "$(jeton cert issued --status revoked | wc -l)" = 2 ]
# What another CA signed, and a damaged database.
sed '2s/\tunknown/unknown/' demo/index.txt > bad-index.txt
fails 8 jeton ca adopt bad-index.txt --label old | grep 'line 2'
openssl req -x509 -new -key key -subj /CN=Old -out foreign.pem
fails 8 jeton ca adopt foreign.pem --label old
printf 'R\t281127125310Z\t261127125500Z\t\tunknown\t/CN=h\n' > empty-index.txt
fails 8 jeton ca adopt empty-index.txt --label old | grep 'line 1'
echo FFFFFFFFFFFFFFFF > demo/crlnumber
fails 8 jeton ca adopt demo/crlnumber --label old | grep '2^62'
# A hold becomes a revocation, which nobody releases.
sed '/CN=c$/s/,holdInstruction[^\t]*/,keyCompromise/' demo/index.txt > compromised-index.txt
grep 'keyCompromise.*CN=c$' compromised-index.txt
jeton ca adopt compromised-index.txt --label old
[ "$(jeton cert issued --status held | wc -l)" = 0 ]
fails 4 jeton cert release c.pem
# A database beside certificates of another CA, and a folder with a FIFO.
mkdir -p other/newcerts
cp demo/index.txt other
cp foreign.pem other/newcerts/9001.pem
fails 8 jeton ca adopt other/index.txt --label old | grep 'of another CA'
echo 07 > demo/crlnumber
mkfifo demo/fifo.pem
jeton ca adopt demo --label old
# A counter has no revocations, and neither has a CRL for some certificates. Not all certificates are of this CA.
rm issued.sqlite
jeton ca init --label old
jeton ca adopt demo/crlnumber --label old | grep 'CRL of CN=Old is 6'
ca -cert ca.pem -gencrl -crlexts some -out some.crl
fails 8 jeton ca adopt some.crl --label old | grep 'critical extension'
cp -r demo mixed
cp foreign.pem mixed/newcerts/9001.pem
fails 8 jeton ca adopt mixed --label old | grep 'did not sign some certificates'
fails 7 jeton crl --label old | grep 'may have signed CRLs'
# Numbers that no CA may give, but some do.
for number in -128 0x00ffffffffffffffffffffffffffffffffffffffff; do
    openssl x509 -req -in a.csr -CA ca.pem -CAkey ca.key -set_serial $number -days 9 -out odd.pem
    jeton ca adopt demo odd.pem --label old
    jeton cert revoke odd.pem
    jeton crl --label old --out odd.crl --force
    fails 2 openssl verify -crl_check -CRLfile odd.crl -CAfile ca.pem odd.pem | grep 'certificate revoked'
done
# The list has the first of two certificates with one number, and says so about the other.
for days in 9 99; do
    openssl x509 -req -in a.csr -CA ca.pem -CAkey ca.key -set_serial 77 -days $days -out $days.pem
done
jeton ca adopt 9.pem 99.pem --label old 2>&1 | grep 'CN=a has the number 4d of another'
jeton ca adopt 99.pem 9.pem --label old --json 2>/dev/null | grep '"serial": "4d"'
jeton cert show serial:4d --out shown.pem 2>&1 | grep 'CN=a has this number too$'
cmp shown.pem 9.pem
jeton cert expiring --within 30d --name CN=a
# The list also has the others: they are found, and their keys are compromised with the number.
openssl req -new -newkey rsa:2048 -noenc -keyout twin.key -subj /CN=twin -out twin.csr
openssl x509 -req -in twin.csr -CA ca.pem -CAkey ca.key -set_serial 77 -days 9 -out twin.pem
jeton cert issue twin.csr --label old --profile tls-client --out same.pem
for round in 1 2; do jeton ca adopt twin.pem --label old 2>&1 | grep 'CN=twin has the number 4d of another'; done
jeton cert show serial:4d 2>&1 | grep 'CN=a has this number too; CN=twin has this number too$'
jeton cert show ./twin.pem | cmp - 9.pem
jeton cert revoke ./twin.pem --reason key-compromise | grep "of CN=twin has the same key or shares a secret with it"
for name in a twin; do
    fails 7 jeton cert issue $name.csr --label old --profile tls-client | grep 'the key was compromised'
done
# The same name in another string type is the same CA.
openssl req -x509 -config demo/cnf -key ca.key -subj /CN=Old -addext basicConstraints=critical,CA:TRUE -out printable.pem
fails 7 jeton ca init --label old --ca-cert printable.pem | grep 'other string types'
# A certificate of today says nothing about the age of a key that another program had.
rm issued.sqlite
openssl req -x509 -key ca.key -subj /CN=Today -addext basicConstraints=critical,CA:TRUE -out today.pem
jeton ca init --label old --ca-cert today.pem
fails 7 jeton crl --label old --ca-cert today.pem | grep 'may have signed CRLs'
# The CRLs of two CAs in one file, in a folder with a link to itself. A damaged CRL is not passed over.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout else.key -subj /CN=Else -out else.pem
openssl ca -config demo/cnf -keyfile else.key -cert else.pem -gencrl -out else.crl
mkdir crls
ln -s . crls/self
cat else.crl demo/old.crl > crls/both.pem
for source in crls crls/both.pem; do
    rm issued.sqlite
    jeton ca init --label old
    fails 8 jeton ca adopt else.crl --label old | grep 'did not sign this CRL'
    jeton ca adopt $source --label old | grep 'CRL of CN=Old is 5'
    [ "$(jeton cert issued --status revoked | wc -l)" = 1 ]
done
fails 7 jeton crl --label old --number 5 --out crls/both.pem --force | grep 'last CRL has the number 5'
head -c 300 else.crl > crls/cut.crl
fails 8 jeton ca adopt crls --label old | grep 'no CRL, or a damaged one'
# A counter that was never used, beside a database: a new list knows all, and a list that came back may not.
mkdir unused
cp demo/index.txt unused
echo 01 > unused/crlnumber
rm issued.sqlite
jeton ca init --label old
jeton backup new-key backup.key
jeton backup create old.backup --token old --recipient "$(sed -n 's/.*public key: //p' backup.key)"
jeton ca adopt unused --label old
jeton crl --label old --out first.crl
openssl crl -in first.crl -noout -crlnumber | grep '0x0*1$'
rm -r tokens issued.sqlite
jeton backup restore old.backup --identity backup.key
jeton ca adopt unused --label old
fails 7 jeton crl --label old | grep 'may have signed CRLs'
# What the program cannot read stops no folder: certificates of the CA and of others.
mkdir odd
uuid=2.25.329800735698586629295641978511506172918
echo "$uuid=DER:0500" > oid.ext
echo "subjectAltName=RID:$uuid" > rid.ext
: > long.ext
number=70
for signer in ca else; do
    for name in oid rid long; do
        number=$((number + 1))
        serial=0x$number
        [ $name != long ] || serial=0x7f$(printf %046d 1)
        openssl x509 -req -in a.csr -CA $signer.pem -CAkey $signer.key -set_serial $serial -days 9 -extfile $name.ext -out odd/$signer-$name.pem
    done
done
rm issued.sqlite
jeton ca init --label old
jeton ca adopt odd --label old > said 2>&1
grep '^2 certificates are new' said
grep 'odd/ca-long.pem: the serial number has more than 20 bytes' said
fails 8 jeton ca adopt odd/ca-long.pem --label old | grep 'odd/ca-long.pem: the serial number has more than 20 bytes'
fails 8 jeton ca adopt odd/else-oid.pem --label old | grep 'odd/else-oid.pem: the CA did not sign this certificate'
for name in oid rid long; do fails 8 jeton cert info odd/ca-$name.pem | grep "odd/ca-$name.pem: .*DER"; done
# They are found, and revoked by their number.
fails 1 jeton cert show CN=a | grep 'several certificates fit.*CN=a.*CN=a'
jeton cert revoke ./odd/ca-oid.pem --reason key-compromise
jeton crl --label old --number 9 --out oid.crl
fails 7 jeton cert issue a.csr --label old --profile tls-client | grep 'the key was compromised'
fails 2 openssl verify -crl_check -CRLfile oid.crl -CAfile ca.pem odd/ca-oid.pem | grep 'certificate revoked'
openssl verify -crl_check -CRLfile oid.crl -CAfile ca.pem odd/ca-rid.pem
# A database without certificates that are beside it is not the last one.
for lines in 0 2; do
    rm -rf stale
    cp -r demo stale
    head -n $lines demo/index.txt > stale/index.txt
    for source in stale stale/index.txt; do
        rm issued.sqlite
        jeton ca init --label old
        jeton ca adopt $source --label old 2>&1 | grep "$((3 - lines / 2)) certificates of the CA are not in index.txt"
        fails 7 jeton crl --label old | grep 'may have signed CRLs'
    done
done
# A folder of another CA, and a reason that OpenSSL also writes.
mkdir strange
cp else.pem strange
jeton ca adopt strange --label old 2>&1 | grep 'strange has nothing of this CA'
sed '/CN=c$/s/,holdInstruction[^\t]*/,removeFromCRL/' demo/index.txt > removed-index.txt
jeton ca adopt removed-index.txt --label old
# The key of a compromised certificate is known from the certificate alone.
rm issued.sqlite
jeton ca init --label old
jeton ca adopt compromised-index.txt --label old 2>&1 | grep 'the CA may certify them again: 009002, 009003;'
jeton ca adopt c.pem --label old 2>&1 | grep 'the CA may certify them again: 009002;'
jeton ca adopt b.pem --label old > said 2>&1
fails 1 grep 'certify them again' said
# Signatures with SHA-1 are not accepted. The database vouches for a certificate that has one, and nothing for a CRL.
mkdir -p weak/newcerts
sed 's/demo/weak/' demo/cnf > weak/cnf
touch weak/index.txt
echo 9000 > weak/serial
echo 01 > weak/crlnumber
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout weak.key -subj /CN=Weak \
    -addext basicConstraints=critical,CA:TRUE -out weak-ca.pem
weak() { openssl ca -batch -config weak/cnf -keyfile weak.key -cert weak-ca.pem "$@"; }
for md in sha1 sha256; do
    openssl req -new -newkey rsa:2048 -noenc -keyout key -subj /CN=$md -out weak.csr
    weak -md $md -in weak.csr -out weak-$md.pem -notext
done
weak -gencrl -md sha1 -out weak-sha1.crl
jeton token init --label weak
jeton key import weak.key --token weak --label weak
WEAK='--token weak --label weak --ca-cert weak-ca.pem --issued weak.sqlite'
jeton ca init $WEAK
for file in weak-sha1.pem weak-sha1.crl; do
    fails 8 jeton ca adopt $file $WEAK | grep "$file: .*a signature with the algorithm 1.2.840.10045.4.1, which is not accepted"
done
jeton ca adopt weak $WEAK | grep '2 certificates are new'
jeton cert revoke ./weak-sha1.pem --reason key-compromise --issued weak.sqlite
