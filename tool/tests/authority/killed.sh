# Each verb that writes is killed at a random time. No certificate is without its row, no row lies, no number comes twice.
jeton token init --label ca
jeton key generate --type ec:p256 --label ca
jeton cert self-sign --label ca --subject CN=Root --ca --import --out ca.pem
jeton key generate --type ec:p256 --label key
jeton csr --label key --subject CN=any --out key.csr
issue() { jeton cert issue key.csr --label ca --profile tls-client --subject CN=$1 --out $1.pem; }
# Runs a command, and kills it at a time between its start and a little after its usual end.
jeton ca init --label ca --issued other.sqlite
start=$(date +%s%N)
jeton crl --label ca --issued other.sqlite
usual=$((($(date +%s%N) - start) / 1000000))
killed() {
    "$@" 2>>log &
    sleep $(printf 0.%03d $((RANDOM % (usual * 3 / 2 + 1) % 1000)))
    kill -9 $! 2>>log || true
    wait $! 2>>log || true
}
for round in $(seq "$ROUNDS"); do killed jeton ca init --label ca; done
jeton ca init --label ca
issue one
for round in $(seq "$ROUNDS"); do
    killed jeton cert issue key.csr --label ca --profile tls-client --subject CN=i$round --out i$round.pem
    killed jeton crl --label ca --out $round.crl
    killed jeton cert revoke i$round --reason hold
    killed jeton cert release i$round
    killed jeton cert renew one.pem --label ca --out r$round.pem
    killed jeton ca adopt one.pem --label ca
done
# Some commands ended before they were killed, and some did not.
done=$(find . -name '*.crl' -o -name '[ir][0-9]*.pem' | wc -l)
[ $done -gt 0 ] && [ $done -lt $((3 * ROUNDS)) ]
# 16 issuers at the same time.
for number in $(seq 16); do issue p$number & pids="${pids-} $!"; done
for pid in $pids; do wait $pid; done
jeton doctor --json > doctor || grep weak-pin-record doctor
jeton crl --label ca --out last.crl
for file in i*.pem r*.pem p*.pem; do
    [ ! -s $file ] || jeton cert show $file | cmp - $file
done
jeton cert issued --json > rows
# Each row has a certificate that the CA signed.
for serial in $(sed -n 's/.*"serial": "\(.*\)".*/\1/p' rows); do
    jeton cert show $serial > shown.pem
    openssl verify -CAfile ca.pem shown.pem
    openssl x509 -in shown.pem -noout -serial >> serials
done
numbers() { for crl in *.crl; do [ ! -s $crl ] || openssl crl -in $crl -noout -crlnumber; done; }
[ -z "$(numbers | sort | uniq -d)" ]
[ -z "$(sort serials | uniq -d)" ]
last=$(openssl crl -in last.crl -noout -crlnumber | sed 's/.*0x//')
for crl in [0-9]*.crl; do
    [ ! -s $crl ] || [ $((16#$(openssl crl -in $crl -noout -crlnumber | sed 's/.*0x//'))) -lt $((16#$last)) ]
done
[ $(ls p*.pem | wc -l) = 16 ]
