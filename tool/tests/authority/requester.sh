# A requester who may write to the directory of requests stops no other request, and gets no file outside the output.
jeton token init --label ca
jeton key generate --type ec:p256 --label ca
jeton cert self-sign --label ca --subject CN=Root --ca --import --out ca.pem
jeton ca init --label ca
openssl req -new -newkey rsa:2048 -noenc -subj /CN=x -addext subjectAltName=DNS:x.example.org -keyout x.key -out x.csr
issue() { timeout 60 jeton cert issue "$@" --label ca --profile tls-server; }
mkdir requests out
for name in ..csr ...csr -.csr --help.csr $'line\nforged.csr' $'latin\xe4.csr' good.csr; do
    cp x.csr "requests/$name"
done
mkfifo requests/fifo.csr
ln -s /dev/zero requests/device.csr
ln -s missing requests/link.csr
mkdir requests/folder.csr
issue requests --out out > said 2> warned
[ "$(ls -A out | wc -l)" = 8 ]
[ -e out/good.pem ] && [ ! -e out.pem ]
for name in ..pem ...pem -.pem --help.pem $'line\nforged.pem' $'latin\xe4.pem'; do
    openssl x509 -in "out/$name" -noout
done
[ "$(wc -l < said)" = 7 ]
[ "$(grep -c 'is left out: it is no file' warned)" = 4 ]
[ "$(wc -l < warned)" = 4 ]
# JSON has a name that is not UTF-8 as a terminal shows it.
issue requests --out out --force --json > said
[ "$(grep -c '"serial"' said)" = 7 ]
issue x.csr --out $'\xe4.pem' --json | grep '"status": "valid"'
# The list keeps the first parts of what a certificate does not have.
{ printf '[req]\ndistinguished_name=dn\n[dn]\n[many]\nsubjectAltName=DNS:x.example.org\n'
    for number in $(seq 40); do echo "1.3.6.1.4.1.99999.$number=DER:0500"; done; } > conf.cnf
openssl req -new -config conf.cnf -reqexts many -subj /CN=x -key x.key -out many.csr
issue many.csr --out many.pem 2> warned
[ "$(wc -l < warned)" = 17 ]
grep 'does not have 24 further parts of the request' warned
# The output of the operator's program is not between the lines of the result. The program runs also if there is no
# place for these.
printf '#!/bin/sh\necho said by the hook\ntouch ran\n' > hook
chmod +x hook
issue x.csr --hook ./hook 2> warned | openssl x509 -noout
grep 'said by the hook' warned
issue x.csr --json --out json.pem --hook ./hook > said
[ "$(head -c 1 said)" = '{' ]
rm ran
issue x.csr --out full.pem --hook ./hook 2> warned > /dev/full
grep 'standard output: .*; the certificate [0-9a-f]* is written' warned
[ -e ran ] && [ -e full.pem ]
# The program gets no file of the caller for that of the certificate.
printf '#!/bin/sh\necho "file: $CERT_FILE" >&2\n' > hook
CERT_FILE=other jeton cert issue x.csr --label ca --profile tls-server --hook ./hook 2> warned | openssl x509 -noout
grep -x 'file: ' warned
issue requests --out out --force 2> warned > /dev/full
[ "$(grep -c 'is written' warned)" = 7 ]
# A second object of the certificate of the CA is not another certificate.
jeton cert import ca.pem --allow-duplicate
issue x.csr --out twice.pem
fails 2 jeton cert verify twice.pem --roots ca.pem --host 'b_ü.example.org' | grep 'no host name and no address'
