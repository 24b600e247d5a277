# What a request asks for beyond its profile is left out, and the list says so. OpenSSL accepts each profile.
jeton token init --label ca
jeton key generate --type ec:p256 --label ca
jeton cert self-sign --label ca --subject CN=Root --ca --import --out ca.pem
jeton ca init --label ca
openssl req -new -newkey rsa:3072 -noenc -keyout key -subj /C=AU/O=x/emailAddress=a@example.org \
    -addext keyUsage=nonRepudiation,digitalSignature,keyEncipherment -addext basicConstraints=CA:FALSE \
    -addext subjectAltName=DNS:w.example.org,email:a@example.org -out usages.csr
openssl req -new -key key -subj /CN=v3 -reqexts v3_req -out v3.csr
openssl req -new -key key -subj /CN=peer -addext extendedKeyUsage=serverAuth,clientAuth \
    -addext subjectAltName=DNS:p.example.org -out peer.csr
issue() { jeton cert issue $1.csr --label ca "${@:2}"; }
text() { openssl x509 -in "$1" -noout -text; }
issue usages --profile tls-server --json --out usages.pem | grep 'content-commitment; the name email:a@example.org'
text usages.pem | grep 'Digital Signature, Key Encipherment$'
fails 1 grep email: <(text usages.pem)
issue v3 --profile tls-server --san dns:v.example.org
issue peer --profile tls-server --json | grep 1.3.6.1.5.5.7.3.2
check() { issue peer --profile $1 --out $1.pem "${@:3}"; openssl verify -x509_strict -purpose $2 -CAfile ca.pem $1.pem; }
check tls-peer sslserver
check tls-peer sslclient --force
check tls-client sslclient
check internal-server sslserver --days 300
fails 7 issue peer --profile tls-server --days 398 | grep 'internal-server .* --profiles'
check email smimesign --san email:a@example.org
check timestamping timestampsign
check kerberos-client any --san upn:a@EXAMPLE.ORG
check kerberos-kdc any
check code-signing any
text code-signing.pem | grep 'Code Signing'
# A profile of the operator, and the built-in ones as such a file.
jeton ca profiles --out profiles.toml
sed -i 's/^usages = .*/policies = ["1.2.3.4"]\n&/' profiles.toml
issue peer --profile tls-server --profiles profiles.toml --out policy.pem
text policy.pem | grep 'Policy: 1.2.3.4'
fails 2 issue peer --profile tls-serve
sed -i 's|^policies = .*|&\nissuer-url = "http://ca.example.org/ca.der"\ncrl-url = "http://ca.example.org/ca.crl"|' profiles.toml
issue peer --profile tls-server --profiles profiles.toml --days 90 --out urls.pem
text urls.pem | grep 'CA Issuers - URI:http://ca.example.org/ca.der'
text urls.pem | grep 'URI:http://ca.example.org/ca.crl'
# The last second belongs to the lifetime (RFC 5280, 4.1.2.5).
seconds() { date -d "$(openssl x509 -in urls.pem -noout -$1 | cut -d= -f2)" +%s; }
[ $(($(seconds enddate) - $(seconds startdate))) = $((90 * 86400 - 1)) ]
# The second extension of a type would be in no certificate.
printf '%s\n' '[req]' distinguished_name=d '[d]' '[twice]' subjectAltName=DNS:a.example.org \
    2.5.29.17=DER:30:0f:82:0d:62:2e:65:78:61:6d:70:6c:65:2e:6f:72:67 > cnf
openssl req -new -key key -subj /CN=twice -config cnf -reqexts twice -out twice.csr
fails 7 issue twice --profile tls-server | grep 'the extension 2.5.29.17 twice'
# Names in a request: "a\0.b.org", "", "*", "a\r\n.org", an address of three bytes.
for name in 82:08:61:00:2e:62:2e:6f:72:67 82:00 82:01:2a 82:07:61:0d:0a:2e:6f:72:67 87:03:0a:00:00; do
    printf '%s\n' '[req]' distinguished_name=d '[d]' '[wrong]' \
        subjectAltName=DER:30:$(printf %02x $(((${#name} + 1) / 3))):$name > cnf
    openssl req -new -key key -subj /CN=wrong -config cnf -reqexts wrong -out wrong.csr
    fails 7 issue wrong --profile tls-server | grep 'is not a valid name'
done
cat > own.toml <<'END'
[strict]
days = 3
most-days = { "2020-01-01" = 7 }
usages = ["digital-signature"]
beyond = "refuse"
END
fails 7 issue peer --profile strict --profiles own.toml | grep 'asks for the extended key usage'
fails 7 issue v3 --profile strict --profiles own.toml | grep 'asks for the key usage'
openssl req -new -key key -subj /CN=plain -out plain.csr
issue plain --profile strict --profiles own.toml
fails 7 issue plain --profile strict --profiles own.toml --days 8 | grep 'at most 7 days'
openssl req -new -newkey rsa:2048 -noenc -keyout short -subj /CN=short -out short.csr
fails 7 issue short --profile code-signing | grep 'no keys of the type rsa:2048'
# A profile that allows nothing, or that does not say what its author means.
changed() { sed "$1" own.toml > changed.toml; fails $2 issue plain --profile strict --profiles changed.toml | grep 'the profile strict'; }
for change in 's/^days = 3/days = 0/' 's/2020-01-01/2999-01-01/' 's/"digital-signature"//'; do changed "$change" 7; done
for change in 's/2020-01-01/2020-1-1/' 's/"digital-signature"/&, &/' 's/^usages.*/&\nca = true/' 's/digital-signature/key-cert-sign/' '1a keys = ["rsa:4096bit"]'
do changed "$change" 2; done
# A request without a name, and one with very many.
openssl req -new -key key -subj / -out nobody.csr
fails 7 issue nobody --profile tls-client | grep 'needs a subject or a name'
printf '[req]\ndistinguished_name = d\nreq_extensions = e\n[d]\n[e]\nsubjectAltName = @n\n[n]\n' > many.cnf
for count in 5000 12000 100000; do
    (cat many.cnf; seq $count | sed 's/.*/DNS.& = &.test/') > $count.cnf
    openssl req -new -key key -subj /CN=many -config $count.cnf -out $count.csr
done
timeout 15 jeton cert issue 5000.csr --label ca --profile tls-server --out many.pem
fails 7 timeout 15 jeton cert issue 12000.csr --label ca --profile tls-server | grep 'more than 128 KiB'
# A file of megabytes is not read as a request.
fails 1 jeton cert issue 100000.csr --label ca --profile tls-server | grep 'is larger than 1048576 bytes'
# Addresses are checked, and a name that is there twice is there once.
for url in x https:evil.test 'http://[a]b/' http://a:b/; do
    fails 2 jeton cert issue plain.csr --label ca --profile tls-client --crl-url "$url"
    fails 2 jeton cert issue plain.csr --label ca --profile tls-client --ocsp-url "$url"
done
issue plain --profile tls-server --san dns:a.example --san dns:a.example --out twice.pem
[ "$(text twice.pem | grep -o DNS: | wc -l)" = 1 ]
# Several requests and a folder in one command. One that is refused does not end it.
mkdir requests certificates
for name in a b c; do
    openssl req -new -key key -subj /CN=$name -addext subjectAltName=DNS:$name.example.org -out requests/$name.csr
done
openssl req -new -key key -subj /CN=no -addext subjectAltName=DNS:no.example.org -addext basicConstraints=CA:TRUE -out requests/no.csr
many() { jeton cert issue --label ca --profile internal-server "$@"; }
fails 2 many requests | grep -e '--out DIRECTORY'
fails 2 many requests --out certificates --san dns:x.example.org | grep 'cannot share'
fails 7 many requests v3.csr --out certificates > said
grep 'requests/no.csr: .*the certificate of a CA' said
grep '2 of 5 requests have no certificate' said
grep 'certificates/a.pem: [0-9a-f]* for CN=a (dns:a.example.org), valid until 20' said
[ "$(ls certificates)" = "$(printf 'a.pem\nb.pem\nc.pem')" ]
# A certificate that exists stops the command before the first one is issued.
rows=$(jeton cert issued | wc -l)
rm certificates/a.pem
fails 4 many requests --out certificates | grep 'certificates/b.pem exists'
[ "$(jeton cert issued | wc -l)" = $rows ] && [ ! -e certificates/a.pem ]
many requests/a.csr --out certificates/a.pem
rm requests/no.csr certificates/b.pem
many requests --out certificates --if-absent --json | grep -c '"serial"' | grep -x 1
for name in a b c; do openssl verify -CAfile ca.pem certificates/$name.pem; done
# What a certificate says, and what the list knows of it.
jeton cert info certificates/a.pem > info
for line in 'CN=a$' 'Issuer: *CN=Root' 'Names: *dns:a.example.org' 'Key: *rsa:3072' 'For: *server-auth' 'Status: *valid'; do
    grep -E "$line" info
done
grep "$(openssl x509 -in certificates/a.pem -noout -fingerprint -sha256 | sed 's/.*=//; s/://g' | tr A-F a-f)" info
jeton cert revoke certificates/a.pem
cat certificates/a.pem ca.pem | jeton cert info - --json > info
grep '"status": "revoked"' info
grep '"ca": true' info
fails 7 jeton cert info usages.csr
# A program of the operator runs after an issue and before an end, and gets no secret.
printf '#!/bin/sh\nenv | grep -E "^(CERT|JETON)_" | sort > hook.$1; echo "$@" >> hook.$1; [ ! -e fail ]\n' > hook
chmod +x hook
issue peer --profile tls-client --days 9 --subject 'CN=x;touch evil' --out hooked.pem --hook ./hook
for line in '^issued$' '^CERT_FILE=hooked.pem$' '^CERT_SUBJECT=CN=x.*touch evil' '^CERT_PROFILE=tls-client$' '^CERT_END=20'; do
    grep "$line" hook.issued
done
fails 1 grep PIN hook.issued
[ ! -e evil ]
fails 1 jeton cert expiring --within 10d --name touch --hook ./hook
grep '^ending$' hook.ending
touch fail
fails 1 issue peer --profile tls-client --out hooked2.pem --hook ./hook | grep 'the hook ./hook failed'
jeton cert show ./hooked2.pem
# The path of a certificate. Each reason is named.
verify() { jeton cert verify "$@"; }
jeton crl --label ca --out paths.crl
verify certificates/b.pem --roots ca.pem | grep '^valid: CN=b < CN=Root$'
verify certificates/b.pem --roots ca.pem --crl paths.crl --host b.example.org
fails 1 verify certificates/a.pem --roots ca.pem --crl paths.crl | grep 'not valid: CN=a: .*is revoked'
fails 1 verify certificates/b.pem --roots ca.pem --host c.example.org | grep 'has not this name'
fails 1 verify certificates/b.pem --roots ca.pem --purpose client-auth | grep 'not for this purpose'
fails 1 verify certificates/b.pem --roots ca.pem --at 1500000000 | grep 'not valid yet'
fails 1 verify certificates/b.pem --roots certificates/c.pem --json | grep 'no path leads'
openssl req -x509 -newkey rsa:2048 -noenc -subj /CN=odd -addext basicConstraints=CA:FALSE -addext extendedKeyUsage=DER:3000 -keyout odd.key -out odd.pem
fails 1 verify odd.pem --roots ca.pem | grep 'malformed: '
# A certificate that only the newer of two CRLs revokes is revoked, in any order.
sleep 1
jeton cert revoke certificates/c.pem
jeton crl --label ca --out newer.crl
verify certificates/c.pem --roots ca.pem --crl paths.crl
fails 1 verify certificates/c.pem --roots ca.pem --crl paths.crl --crl newer.crl | grep 'is revoked'
fails 1 verify certificates/c.pem --roots ca.pem --crl newer.crl --crl paths.crl | grep 'is revoked'
# A delta CRL is left out. Without it, nothing is known of the certificates of its CA alone.
touch index
printf '[ca]\ndefault_ca = ca\n[ca]\ndatabase = index\ndefault_md = sha256\ndefault_crl_days = 9\n[delta]\n2.5.29.27 = critical,DER:020101\n' > delta.conf
for name in Other Root; do
    openssl req -x509 -newkey rsa:2048 -noenc -subj /CN=$name -keyout delta.key -out delta.pem
    openssl ca -gencrl -config delta.conf -crlexts delta -keyfile delta.key -cert delta.pem -out $name.crl
done
verify certificates/b.pem --roots ca.pem --crl Other.crl --crl paths.crl 2>&1 | grep 'warning: Other.crl: the CRLs of a CA are left out'
for crls in '--crl Root.crl --crl paths.crl' '--crl Other.crl'; do
    fails 1 verify certificates/b.pem --roots ca.pem $crls | grep 'no CRL says'
done
# A CA signs if its key usage allows it. If it requires a policy, the whole path has one.
openssl req -x509 -newkey rsa:2048 -noenc -subj /CN=Own -addext keyUsage=keyCertSign -keyout own.key -out own.pem
openssl req -x509 -newkey rsa:2048 -noenc -subj /CN=Own -addext basicConstraints=critical,CA:FALSE -key own.key -out leaf.pem
below() {
    openssl req -new -newkey rsa:2048 -noenc -subj /CN=$1 -keyout $1.key -out $1.csr
    printf "$4" > $1.ext
    openssl x509 -req -in $1.csr -CA $2.pem -CAkey $3.key -CAcreateserial -days 9 -extfile $1.ext -out $1.pem
}
ca='basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n'
below lists own own 'basicConstraints=critical,CA:TRUE\nkeyUsage=cRLSign\n'
below one lists lists 'keyUsage=digitalSignature\n'
below strict own own "$ca"'policyConstraints=requireExplicitPolicy:0\ncertificatePolicies=1.2.3.4,1.2.3.5\n'
below two strict strict 'certificatePolicies=1.2.3.6\n'
below three strict strict 'certificatePolicies=1.2.3.5\n'
below four strict strict 'keyUsage=digitalSignature\n'
below any strict strict "$ca"'certificatePolicies=2.5.29.32.0\n'
below five any any 'certificatePolicies=1.2.3.4\n'
below six any any 'certificatePolicies=1.2.3.6\n'
below mapped strict strict "$ca"'certificatePolicies=1.2.3.4\npolicyMappings=1.2.3.4:1.2.3.6\n'
below seven mapped mapped 'certificatePolicies=1.2.3.4\n'
cat lists.pem strict.pem any.pem mapped.pem > cas.pem
for name in three five; do verify $name.pem --roots own.pem --untrusted cas.pem; done
for name in two four six seven; do fails 1 verify $name.pem --roots own.pem --untrusted cas.pem | grep 'no policy is valid'; done
fails 1 verify three.pem --roots own.pem --untrusted cas.pem --host x | grep 'has not this name'
for path in 'one.pem --untrusted cas.pem --roots own.pem' 'three.pem --untrusted strict.pem --roots leaf.pem'; do
    fails 1 verify $path | grep 'not that of a CA'
done
# A file for a phone, with a key that is in no token.
export JETON_FILE_PIN=phone
jeton cert p12 hooked.pem --key key --out phone.p12 2>&1 | grep 'in no token'
openssl pkcs12 -in phone.p12 -passin pass:phone -nokeys -clcerts | openssl x509 -noout -fingerprint | cmp - <(openssl x509 -in hooked.pem -noout -fingerprint)
openssl pkcs12 -in phone.p12 -passin pass:phone -nocerts -noenc | openssl pkey | cmp - <(openssl pkey -in key)
openssl genrsa -out foreign.key 2048
fails 7 jeton cert p12 hooked.pem --key foreign.key --out foreign.p12 | grep 'not that of the first certificate'
[ "$(stat -c %a phone.p12)" = 600 ]
