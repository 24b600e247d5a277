# Certificates are found by file, name and number; a hold ends; a renewed certificate has the names of the old one.
jeton token init --label ca
jeton key generate --type ec:p256 --label root
jeton cert self-sign --label root --subject CN=Root --ca --import --out root.pem
jeton ca init --label root
jeton key generate --type ec:p256 --label ca
jeton csr --label ca --class private --subject CN=Issuing --out ca.csr
jeton cert issue ca.csr --label root --profile sub-ca --permit dns:example.org --path-length 1 --days 300 --out ca.pem
jeton cert import ca.pem --label ca
jeton ca init --label ca
jeton key generate --type ec:p256 --label key
jeton csr --label key --subject CN=any --out key.csr
# One key that is compromised, and one for all others.
jeton key generate --type ec:p256 --label lost
jeton csr --label lost --subject CN=any --out lost.csr
jeton cert issue lost.csr --label ca --profile tls-server --subject CN=old --san dns:old.example.org --out old.pem
jeton cert issue lost.csr --label root --profile tls-client --subject CN=beside --out beside.pem
issue() { jeton cert issue key.csr --label ca --profile tls-server --subject CN=$1 --san dns:$1.example.org --out $1.pem "${@:2}"; }
issue www
revoked() { jeton crl --label ca --json | grep "\"revoked\": $1"; }
jeton cert revoke old.pem > said
fails 1 grep 'same key' said
# A revoked key may turn out to be compromised. No certificate is issued for it again, by no CA and under no name.
jeton cert revoke old.pem --reason key-compromise | grep 'CN=beside has the same key or shares a secret with it'
for ca in ca root; do
    fails 7 jeton cert issue lost.csr --label $ca --profile tls-client --subject CN=other.example.org | grep 'was compromised'
done
fails 7 jeton cert renew beside.pem --label root | grep 'was compromised'
fails 7 jeton cert renew www.pem --label ca --request lost.csr | grep 'was compromised'
jeton cert revoke beside.pem --reason key-compromise > said
fails 1 grep 'same key' said
fails 4 jeton cert revoke old.pem
fails 4 jeton cert revoke old.pem --reason superseded
fails 3 jeton cert revoke 0102
fails 3 jeton cert revoke root.pem
jeton cert revoke www.example.org --reason hold
revoked 2
fails 4 jeton cert revoke www --reason hold
jeton cert release www.pem
revoked 1
fails 4 jeton cert release www
jeton cert revoke CN=www --reason hold
jeton cert revoke "$(openssl x509 -in www.pem -noout -serial | cut -d= -f2)" --reason superseded
# A name means the valid certificate. Two are too many.
issue www --force
jeton cert show www --out again.pem
cmp again.pem www.pem
jeton cert expiring --within 89d --name www
fails 1 jeton cert expiring --within 13w --name www | grep -c www | grep -x 1
jeton cert renew www.example.org --label ca --days 100 --chain --out chain.pem
jeton cert expiring --within 13w
fails 1 jeton cert revoke www | grep 'several certificates fit'
[ "$(grep -c BEGIN chain.pem)" = 2 ]
openssl verify -CAfile root.pem -untrusted chain.pem chain.pem
openssl x509 -in chain.pem -noout -ext subjectAltName | grep DNS:www.example.org
jeton cert issued --status revoked --name old --ca Issuing --json | grep key-compromise
# A new key, and the certificate of a CA with its constraints.
jeton key generate --type ec:p256 --label new
jeton csr --label new --subject CN=x --out new.csr
jeton cert renew chain.pem --label ca --request new.csr --out new.pem
fails 1 cmp <(openssl x509 -in new.pem -noout -pubkey) <(openssl x509 -in www.pem -noout -pubkey)
jeton cert renew CN=Issuing --label root --days 300 --out ca2.pem
constraints() { openssl x509 -in $1 -noout -ext nameConstraints,basicConstraints; }
cmp <(constraints ca.pem) <(constraints ca2.pem)
openssl verify -CAfile root.pem -untrusted ca2.pem new.pem
fails 7 jeton cert renew old.pem --label ca | grep 'is revoked'
fails 7 jeton cert renew new.pem --label root | grep 'of CN=Issuing'
# A page and metrics. What a request chose is text in the page.
issue plain --force
jeton cert issue key.csr --label ca --profile tls-client --subject 'CN=<i>"&' --days 3 --out b.pem
jeton ca report --within 4d --out report.html
grep 'CAs: 2' report.html
grep -c '&lt;i.*&amp;' report.html | grep -x 2
# Each month has a row with a bar, and each valid certificate one.
valid=$(jeton cert issued --status valid | wc -l)
grep "Valid certificates: $valid<" report.html
sed -n '/Months/,/<\/table>/s/.*"number">\([0-9]*\)<.*/\1/p' report.html > numbers
[ $(($(paste -sd+ numbers))) = $valid ]
fails 1 grep '<i' report.html
[ "$(sed -n '/Revoked/,$p' report.html | grep -c CN=Issuing)" = 2 ]
jeton ca report --within 4d --format prometheus > metrics
id=$(sed -n 's/jeton_crl_number{ca="CN=Issuing",id="\([0-9a-f]\{8\}\)"} 2$/\1/p' metrics)
grep -F "jeton_certificates{ca=\"CN=Issuing\",id=\"$id\",status=\"revoked\"} 2" metrics
grep -F "jeton_certificates_ending_soon{ca=\"CN=Issuing\",id=\"$id\"} 1" metrics
grep 'jeton_certificate_end_seconds{ca="CN=Issuing",id="'$id'",subject="CN=.*\\".*"} [0-9]\{10\}$' metrics
grep -x 'jeton_crl_end_seconds{ca="CN=Issuing",id="'$id'"} [0-9]\{10\}' metrics
# A file with the name of a host decides nothing, and a name of a file that is another certificate's is refused.
cp new.pem plain.example.org
jeton cert show plain.example.org | cmp - plain.pem
cp new.pem nowhere
fails 3 jeton cert show nowhere | grep 'write ./nowhere'
jeton cert show ./nowhere | cmp - new.pem
jeton cert issue key.csr --label root --profile tls-client --subject CN=twice.pem --out word.pem
cp new.pem twice.pem
fails 7 jeton cert show twice.pem | grep 'the name of another certificate'
rm twice.pem
jeton cert show twice.pem | cmp - word.pem
# A name that is the number of another certificate, and one that looks like two.
client() { jeton cert issue key.csr --label ca --profile tls-client --subject "$1" --out $2.pem; }
number=$(openssl x509 -in new.pem -noout -serial | cut -d= -f2)
client CN=$number number
fails 1 jeton cert revoke $number | grep 'several certificates fit'
jeton cert show serial:$number | cmp - new.pem
client 'CN=a\,CN=bank' comma
fails 3 jeton cert revoke bank
jeton cert show a,CN=bank | cmp - comma.pem
# The constraints of the CA above hold although it also signed itself.
jeton key generate --type ec:p256 --label sub
jeton csr --label sub --class private --subject CN=Sub --out sub.csr
jeton cert issue sub.csr --label ca --profile sub-ca --out sub.pem
jeton cert self-sign --label ca --subject CN=Issuing --ca --out twin.pem
sub='--label sub --ca-cert sub.pem --issued sub.sqlite'
jeton ca init $sub --chain twin.pem
fails 7 jeton cert issue key.csr $sub --profile tls-server --san dns:a.test | grep 'constraints of CN=Issuing'
# A CA that the list revokes signs nothing.
openssl ocsp -no_nonce -issuer ca.pem -cert www.pem -reqout request
jeton cert revoke ca.pem --reason hold
fails 7 issue late | grep 'is held'
fails 7 jeton crl --label ca | grep 'is held'
fails 7 jeton ocsp request --label ca --out answer | grep 'is held'
