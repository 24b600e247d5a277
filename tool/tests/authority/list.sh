# A CA signs nothing without its list, and nothing with a list that another user could have written.
jeton token init --label ca
jeton key generate --type ec:p256 --label ca
jeton cert self-sign --label ca --subject CN=Root --ca --import --out ca.pem
jeton key generate --type ec:p256 --label key
jeton csr --label key --subject CN=any --out key.csr
jeton ca init --label ca
issue() { jeton cert issue key.csr --label ca --profile tls-server --subject CN=$1 --san dns:$1.example.org --out $1.pem "${@:2}"; }
issue www
issue old
jeton cert revoke old.pem --reason superseded
jeton crl --label ca --out ca.crl
for verb in 'crl --label ca' 'cert issue key.csr --label ca --profile tls-client' 'cert issued' 'cert revoke 01' \
    'cert renew www --label ca' 'cert expiring' 'cert show www' 'cert release www'; do
    fails 3 jeton $verb --issued issued.sqlte | grep 'there is no list'
done
[ ! -e issued.sqlte ]
# A list of another CA with the same name, and another certificate of the same CA.
jeton key generate --type ec:p256 --label other
jeton cert self-sign --label other --subject CN=Root --ca --import
jeton ca init --label other --issued other.sqlite
fails 3 jeton crl --label ca --issued other.sqlite | grep 'does not have this CA'
fails 3 jeton cert issue key.csr --label ca --profile tls-client --issued other.sqlite
jeton cert self-sign --label ca --subject CN=Root --ca --days 9 --out again.pem
fails 7 jeton crl --label ca --ca-cert again.pem
jeton ca init --label ca --ca-cert again.pem
jeton crl --label ca --ca-cert again.pem --json --out again.crl | grep '"revoked": 1'
jeton ca init --label ca
cp -p issued.sqlite kept
refused() {
    for verb in 'crl --label ca' 'cert issued' 'cert revoke www.pem'; do fails $1 jeton $verb | grep issued.sqlite; done
    fails 1 jeton doctor | grep 'list:.*issued.sqlite'
    rm issued.sqlite && cp -p kept issued.sqlite
}
chmod 666 issued.sqlite; refused 9
chmod 660 issued.sqlite; refused 9
: > issued.sqlite; refused 8
alter() { python3 -c 'import sqlite3, sys; c = sqlite3.connect("issued.sqlite"); c.execute(sys.argv[1]); c.commit()' "$1"; }
alter 'CREATE TRIGGER back AFTER UPDATE ON certificate BEGIN UPDATE certificate SET revoked = NULL; END'; refused 8
alter 'CREATE VIEW one AS SELECT 1'; refused 8
alter 'DROP TABLE certificate'; refused 8
ln -sf kept issued.sqlite; refused 1
# SQLite would write the pages of a journal into the list, whoever made the journal.
mkdir open && cp -p issued.sqlite open && chmod 1777 open
for verb in 'crl --label ca' 'cert issued' 'cert revoke www.pem'; do
    fails 9 jeton $verb --issued open/issued.sqlite | grep 'the folder of the list: mode 777'
done
fails 9 jeton ca init --label ca --issued open/new.sqlite
[ ! -e open/new.sqlite ]
# A revocation that comes after the first look at the list stops a renewal too.
python3 -c 'import sqlite3, time
c = sqlite3.connect("issued.sqlite", isolation_level=None)
c.execute("BEGIN IMMEDIATE"); open("begun", "w"); time.sleep(1)
c.execute("UPDATE certificate SET revoked = 1, reason = 4"); c.execute("COMMIT")' &
until [ -e begun ]; do sleep 0.01; done
fails 7 jeton cert renew www --label ca | grep 'is revoked'
wait
cp -p kept issued.sqlite
# No output replaces a list.
fails 7 jeton crl --label ca --force --out issued.sqlite | grep 'no output replaces'

# A refused command takes no number, and a number never comes twice.
number() { jeton crl --label ca --json --out n.crl --force "$@" | sed -n 's/.*"number": \([0-9]*\).*/\1/p'; }
fails 4 jeton crl --label ca --out ca.crl
[ "$(number) $(number) $(number --number 7)" = '3 4 7' ]
fails 7 jeton crl --label ca --number 7
rows=$(jeton cert issued | wc -l)
mkdir folder
jeton crl --label ca --out ca.crl --if-absent
jeton cert renew www --label ca --out ca.crl --if-absent
for verb in crl 'cert issue key.csr --profile tls-client'; do
    fails 3 jeton $verb --label ca --out none/file
    fails 4 jeton $verb --label ca --out folder --force
    if jeton $verb --label ca --days 4000000000; then exit 1; fi
done
[ "$(jeton cert issued | wc -l)" = $rows ]
fails 3 jeton cert self-sign --label key --subject CN=x --import --out none/file
fails 3 jeton cert export --label key
[ "$(number)" = 8 ]
fails 4 issue www
[ "$(jeton cert issued | wc -l)" = $rows ]
# What a full device lost is written again. No device is replaced.
fails 10 jeton cert issue key.csr --label ca --profile tls-client --out /dev/full | grep -o 'cert show [0-9a-f]*' > again
jeton $(cat again) | grep BEGIN
! mknod null c 1 3 || chmod 666 null
[ ! -e null ] || { jeton cert show www --force --out null; [ "$(stat -c %a:%F null)" = '666:character special file' ]; }
jeton cert show www --force --out /dev/stdout | cat | cmp - www.pem
# An older list comes back, as a file or in a backup. The CRL that it would replace is later.
jeton cert revoke old.pem --reason key-compromise
[ "$(number)" = 9 ]
cp -p kept issued.sqlite
for more in '' '--number 10'; do
    fails 7 jeton crl --label ca --out n.crl --force $more | grep 'older than the CRL 9 in n.crl.*`jeton ca adopt n.crl`'
done
for verb in 'crl --label ca' 'cert issue key.csr --label ca --profile tls-client'; do
    fails 7 jeton $verb | grep 'may have signed CRLs'
done
# The place of its last CRL has a later one.
cp -p n.crl again.crl
openssl ocsp -no_nonce -issuer ca.pem -cert www.pem -reqout request
for verb in crl 'crl --number 10' 'cert issue key.csr --profile tls-client' 'cert renew www' 'ocsp request'; do
    cp -p kept issued.sqlite
    fails 7 jeton $verb --label ca --out never | grep 'older than the CRL 9 in /.*/again.crl'
done
[ ! -e never ]
jeton ca adopt again.crl --label ca
[ "$(number)" = 10 ]
fails 7 jeton cert issue key.csr --label ca --profile tls-client | grep 'the key was compromised'
# An earlier CRL there says nothing. Where no CRL of the CA can be read, a later one may have been.
jeton crl --label ca --out again.crl --force
cp -p again.crl good.crl
cp -p ca.crl again.crl
jeton crl --label ca | grep BEGIN
openssl crl -in good.crl -outform DER -out good.der
damage() {
    rm -rf again.crl
    case $1 in
        gone) ;;
        other) cp ca.pem again.crl ;;
        empty) : > again.crl ;;
        short) head -c 100 good.der > again.crl ;;
        bit) python3 -c 'd = bytearray(open("good.der", "rb").read()); d[-1] ^= 1; open("again.crl", "wb").write(d)' ;;
        folder) mkdir again.crl ;;
        fifo) mkfifo again.crl ;;
        zero) ln -s /dev/zero again.crl ;;
    esac
}
for what in gone other empty short bit folder fifo zero; do
    damage $what
    code=8
    [ $what != gone ] || code=3
    for verb in crl 'cert issue key.csr --profile tls-client' 'ocsp request'; do
        fails $code timeout 60 jeton $verb --label ca --out never | grep 'again.crl.*Put the CRL back; .*`jeton crl --number`'
    done
done
[ ! -e never ]
# No CRL replaces a damaged one, or that of another CA.
rm -f again.crl
cp -p good.crl again.crl
for what in short bit; do
    cp again.crl kept.crl
    damage $what
    mv again.crl bad.crl
    mv kept.crl again.crl
    fails 8 jeton crl --label ca --out bad.crl --force | grep bad.crl
done
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout foreign.key -subj /CN=Foreign -out foreign.pem
printf '[ca]\ndefault_ca = d\n[d]\ndatabase = foreign\ncrlnumber = foreign.number\ndefault_md = sha256\ndefault_crl_days = 9\n' > foreign.cnf
: > foreign; echo 01 > foreign.number
openssl ca -gencrl -config foreign.cnf -keyfile foreign.key -cert foreign.pem -out foreign.crl
fails 7 jeton crl --label ca --out foreign.crl --force | grep 'the CRL of another CA, CN=Foreign'
# The operator says that the file is gone. The list forgets its place.
rm again.crl
next=$(($(python3 -c 'import sqlite3; print(*sqlite3.connect("issued.sqlite").execute("SELECT crl_number FROM authority").fetchone())') + 1))
jeton crl --label ca --number $next | grep BEGIN
jeton crl --label ca | grep BEGIN
jeton backup new-key backup.key
jeton backup create ca.backup --token ca --recipient "$(sed -n 's/.*public key: //p' backup.key)" | grep 'list of issued'
number
mv tokens old; mv issued.sqlite newest
: > issued.sqlite-journal
fails 4 jeton backup restore ca.backup --identity backup.key | grep 'a part of a lost list'
rm issued.sqlite-journal
jeton backup restore ca.backup --identity backup.key | grep issued.sqlite
mv n.crl last.crl
for verb in crl 'cert issue key.csr --profile tls-client' 'cert renew www'; do
    fails 7 jeton $verb --label ca | grep 'may have signed CRLs'
done
mv last.crl n.crl
jeton ca adopt n.crl --label ca
[ "$(number)" = 16 ]
[ "$(jeton cert issued --status revoked | wc -l)" = 1 ]
# A restore beside a list keeps the list.
rm -r tokens
jeton backup restore ca.backup --identity backup.key 2>&1 | grep 'kept'
[ "$(number)" = 17 ]
! command -v faketime || {
    # A response that was signed while the clock was a month ahead is signed again.
    echo +30d > clock
    LD_PRELOAD=$(faketime -f +0d printenv LD_PRELOAD) FAKETIME_TIMESTAMP_FILE=$PWD/clock FAKETIME_NO_CACHE=1 \
        jeton ocsp --listen 127.0.0.1:0 --label ca > address &
    trap "kill $!" EXIT
    until grep http address; do sleep 0.1; done
    says() { openssl ocsp -url "$(cat address)" -no_nonce -issuer ca.pem -cert www.pem -CAfile ca.pem 2>&1 | grep "$1"; }
    says 'not yet valid'
    echo +0d > clock
    says 'www.pem: good'
    # The list is lost, and the CA has a new certificate for its old key.
    rm issued.sqlite
    faketime -f -3d jeton cert self-sign --label key --subject CN=Key --ca --import
    jeton cert self-sign --label key --subject CN=Key --ca --out today.pem
    jeton ca init --label key --ca-cert today.pem
    fails 7 jeton crl --label key --ca-cert today.pem | grep 'may have signed CRLs'
}
