# Twenty administrators and a timer publish the CRL in one file, while some of them are stopped and killed. The file
# that is left has the highest number of all that reported success, and every revocation that preceded it.
jeton token init --label ca
jeton key generate --type ec:p256 --label ca
jeton cert self-sign --label ca --subject CN=Root --ca --import --out ca.pem
jeton ca init --label ca
jeton key generate --type ec:p256 --label key
jeton csr --label key --subject CN=any --out key.csr
for number in $(seq 20); do
    jeton cert issue key.csr --label ca --profile tls-client --subject CN=c$number --out c$number.pem
done
publish() { jeton crl --label ca --out ca.crl --force --json > $1.json 2> $1.log; }
publish first
administrator() {
    jeton cert revoke c$1.pem && touch revoked.$1 || return
    publish crl.$1 && touch done.$1
}
timer() { for round in 1 2 3; do publish timer.$round || true; done; }
timer & pids=$!
for number in $(seq 20); do administrator $number & pids="$pids $!"; done
# The programs below the shells are stopped for a moment, and every fifth one is killed.
for round in $(seq 40); do
    sleep 0.02
    chosen=$(for shell in $pids; do tr ' ' '\n' < /proc/$shell/task/$shell/children || true; done | shuf -n 1)
    [ -n "$chosen" ] || continue
    kill -STOP $chosen || continue
    sleep 0.02
    [ $((round % 5)) != 0 ] || kill -KILL $chosen || true
    kill -CONT $chosen || true
done 2>> log
for pid in $pids; do wait $pid || true; done
[ -n "$(ls done.*)" ]
number() { sed -n 's/.*"number": \([0-9]*\).*/\1/p' "$@"; }
last=$((16#$(openssl crl -in ca.crl -noout -crlnumber | sed 's/.*0x//')))
for one in $(number *.json); do [ $one -le $last ]; done
[ -z "$(number *.json | sort | uniq -d)" ]
openssl crl -in ca.crl -CAfile ca.pem -noout -text > text
for number in $(seq 20); do
    [ ! -e done.$number ] || grep -i "Serial Number: $(openssl x509 -in c$number.pem -noout -serial | sed 's/.*=//')" text
done
# Nothing that was killed keeps the next one from its turn.
publish last
[ "$(number last.json)" -gt $last ]
