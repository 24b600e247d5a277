# The folder of easy-rsa, with five certificates of which two are revoked, moves to a token.
export EASYRSA_BATCH=1 EASYRSA_CERT_EXPIRE=200 EASYRSA_ALGO=ec EASYRSA_CURVE=prime256v1
easyrsa() { /usr/share/easy-rsa/easyrsa "$@" > easyrsa.log 2>&1 || { cat easyrsa.log; exit 1; }; }
easyrsa init-pki
EASYRSA_REQ_CN='Old CA' easyrsa build-ca nopass
for name in www mail vpn; do easyrsa --subject-alt-name=DNS:$name.example.org build-server-full $name nopass; done
easyrsa build-client-full alice nopass
easyrsa build-serverClient-full peer nopass
easyrsa revoke mail keyCompromise
easyrsa revoke alice superseded
easyrsa gen-crl
cp pki/crl.pem last.crl

jeton token init --label ca
jeton key import pki/private/ca.key --label ca
jeton cert import pki/ca.crt --label ca
jeton ca adopt pki --label ca
jeton cert issued --json > issued
for name in www vpn peer; do jeton cert issued --status valid --name $name | grep -c . | grep -x 1; done
jeton cert issued --status revoked --name mail --json | grep '"key-compromise"'
jeton cert issued --status revoked --name alice --json | grep '"superseded"'
[ "$(jeton cert issued | wc -l)" = 5 ]
jeton crl --label ca --out new.crl
facts() { openssl crl -in "$1" -noout -text | grep -A1 'Serial Number:\|Reason' | grep -v '^--'; }
diff <(facts last.crl) <(facts new.crl)
number() { printf '%d\n' "$(openssl crl -in $1 -noout -crlnumber | cut -d= -f2)"; }
[ "$(number new.crl)" -gt "$(number last.crl)" ]
# The CA goes on: a certificate is renewed, revoked, and written again.
jeton cert renew www --label ca --profile tls-server --out www.pem
openssl verify -crl_check -CRLfile new.crl -CAfile pki/ca.crt www.pem pki/issued/vpn.crt
jeton cert revoke pki/issued/vpn.crt
jeton crl --label ca --out new.crl --force
fails 2 openssl verify -crl_check -CRLfile new.crl -CAfile pki/ca.crt pki/issued/vpn.crt
jeton cert show mail --out mail.pem
serial=$(openssl x509 -in mail.pem -noout -serial | cut -d= -f2)
cmp mail.pem <(openssl x509 -in pki/revoked/certs_by_serial/$serial.crt)
