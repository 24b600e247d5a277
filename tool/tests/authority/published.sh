# The CRLs of a CA follow each other in their numbers and in time, and a result that nobody got is no success.
jeton token init --label ca
jeton key generate --type ec:p256 --label ca
jeton cert self-sign --label ca --subject CN=Root --ca --import --out ca.pem
jeton ca init --label ca
openssl req -new -newkey rsa:2048 -noenc -keyout key -subj /CN=x -out x.csr
jeton cert issue x.csr --label ca --profile tls-client --out x.pem
# A list that came back learns nothing from a CRL that it knew, from an earlier one, or from one that has ended.
alter() { python3 -c 'import sqlite3, sys; c = sqlite3.connect("issued.sqlite"); c.execute(sys.argv[1]); c.commit()' "$1"; }
jeton crl --label ca --out one.crl
alter 'UPDATE authority SET unsure = 1'
cp -p issued.sqlite kept
jeton ca adopt one.crl --label ca 2>&1 | grep 'later CRLs may have followed'
fails 7 jeton crl --label ca | grep 'may have signed CRLs'
jeton crl --label ca --number 2 --out two.crl
alter 'UPDATE authority SET unsure = 1'
for crls in one.crl two.crl 'one.crl two.crl'; do
    jeton ca adopt $crls --label ca 2>&1 | grep 'later CRLs may have followed'
    fails 7 jeton crl --label ca | grep 'may have signed CRLs'
done
cp -p kept issued.sqlite
! command -v faketime || {
    faketime -f +8d jeton ca adopt two.crl --label ca 2>&1 | grep 'later CRLs may have followed'
    fails 7 jeton crl --label ca | grep 'may have signed CRLs'
    cp -p kept issued.sqlite
}
jeton ca adopt two.crl --label ca > said 2>&1
fails 1 grep warning said
# The newest CRL says what is on hold, wherever it is among the others.
cp -p issued.sqlite before
jeton cert revoke x.pem --reason hold
jeton crl --label ca --out hold.crl
jeton cert release x.pem
jeton crl --label ca --out free.crl
held() { jeton cert issued --status held | wc -l; }
for crls in 'hold.crl free.crl' 'free.crl hold.crl'; do
    cp -p before issued.sqlite
    jeton ca adopt $crls --label ca
    [ "$(held)" = 0 ]
done
jeton ca adopt hold.crl --label ca
[ "$(held)" = 0 ]
cp -p before issued.sqlite
jeton ca adopt hold.crl --label ca
[ "$(held)" = 1 ]
cp -p before issued.sqlite
# Whoever may write to the place of the CRL may put any number there.
printf '[ca]\ndefault_ca = d\n[d]\ndatabase = index\ncrlnumber = number\ndefault_md = sha256\ndefault_crl_days = 9\n' > cnf
touch index; echo 4000000000000000 > number
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout forged.key -subj /CN=Root -out forged.pem
openssl ca -gencrl -config cnf -keyfile forged.key -cert forged.pem -out ca.crl
fails 8 jeton crl --label ca --out ca.crl --force | grep 'has the name of this CA, and not its signature'
rm ca.crl
jeton crl --label ca --out ca.crl
openssl crl -in ca.crl -CAfile ca.pem -noout -crlnumber | grep '0x0*3$'
# A command whose result nobody reads stops no other one.
number() { python3 -c 'import sqlite3; print(*sqlite3.connect("issued.sqlite").execute("SELECT crl_number FROM authority").fetchone())'; }
{ head -c 65536 /dev/zero; exec jeton crl --label ca; } | sleep 60 &
sleeper=$!
for round in $(seq 100); do [ "$(number)" != 4 ] || break; sleep 0.1; done
timeout 30 jeton crl --label ca --out other.crl
[ "$(number)" = 5 ]
kill $sleeper || true
# Nobody got the certificate or the CRL.
for verb in 'cert show x' 'cert renew x --label ca' 'crl --label ca' 'crl --label ca --json'; do
    { sleep 0.2; code=0; jeton $verb 2> said || code=$?; echo $code > code; } | true
    [ "$(cat code)" != 0 ] && grep 'standard output: Broken pipe' said
done
# The clock goes back.
! command -v faketime || {
    faketime -f +2h jeton crl --label ca --out ca.crl --force
    fails 7 jeton crl --label ca --out ca.crl --force | grep 'starts 7[0-9]* seconds later than the clock says'
    jeton crl --label ca --out ca.crl --force --number $(($(number) + 1))
    jeton crl --label ca --out ca.crl --force
}
# A number that leaves no numbers for later ones is refused.
next=$(($(number) + 1))
for wrong in 9223372036854775807 4611686018427387905; do
    fails 7 jeton crl --label ca --number $wrong | grep 'leaves no numbers for later ones'
done
# No output becomes a part of the list, and a process may be forbidden to write.
for end in journal wal shm lock; do
    fails 7 jeton crl --label ca --out issued.sqlite-$end --force | grep 'would be a part of issued.sqlite'
    [ ! -e issued.sqlite-$end ]
done
code=0
(ulimit -f 0; jeton crl --label ca --out limited.crl > /dev/null 2>&1) || code=$?
[ $code -gt 0 ] && [ $code -lt 128 ] && [ ! -s limited.crl ]
jeton crl --label ca --out limit.crl
openssl crl -in limit.crl -noout -crlnumber | grep "0x0*$(printf %X $next)$"
# A signed CRL that replaces another one leaves no file beside it, whatever an earlier command left.
touch .jeton-new-left
jeton crl --label ca --out limit.crl --force
[ -z "$(ls -A | grep jeton-new)" ]
