# Two years of a company's CA, from December 2026 on, with a moved clock. The root is offline. The CA `fresh` is new. The
# CA `old` used OpenSSL before, and brings its revocations. On each first day of a month, OpenSSL, GnuTLS and Go say
# about each certificate what the list says, and so do OCSP responses. $KIND is the type of the CA's keys.
export NO_FAKE_STAT=1 FAKETIME_DONT_FAKE_MONOTONIC=1 TZ=UTC
# The semaphores of the wrapper `faketime` have the numbers of processes, and outlive those that are killed. So programs
# load the library without it.
LIBRARY=$(faketime -f '@2026-01-01 00:00:00' printenv LD_PRELOAD)
export LIBRARY
at() { env LD_PRELOAD=$LIBRARY FAKETIME="@$now" "$@"; }
# A day: the year, the number of the month from January of this year on, the day.
day() { now="$(($1 + ($2 - 1) / 12))-$(printf %02d-%02d $((($2 - 1) % 12 + 1)) "$3") 08:00:00"; }
jeton() { at jeton "$@"; }
# The directory of the root is away, unless a command needs it.
root() { mv safe root; JETON_DIR=root/tokens jeton "$@" --token root --label root; mv root safe; }
mkdir -p root certificates crls says certtool new/fresh new/old demo/newcerts

day 2026 6 1
JETON_DIR=root/tokens jeton token init --label root
JETON_DIR=root/tokens jeton key generate --token root --type $KIND --label root
JETON_DIR=root/tokens jeton cert self-sign --token root --label root --subject 'CN=Root,O=Company' --ca --days 7300 --import --out root.pem
mv root safe
root ca init
sub_ca() { # label of the CA, more options
    root cert issue $1.csr --profile sub-ca --path-length 1 --days 3650 --exclude dns:secret.example.org --out $1.pem "${@:2}"
}

# Keys of the holders: files of OpenSSL, and a token.
jeton token init --label ca
go build -o verify $SCRIPTS/verify.go
openssl req -new -newkey rsa:3072 -noenc -keyout rsa.key -subj /CN=rsa -out rsa.csr
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-384 -noenc -keyout ec.key -subj /CN=ec -out ec.csr
jeton key generate --type $KIND --label holder
jeton csr --label holder --subject CN=holder --out token.csr
jeton key generate --token ca --type $KIND --label ocsp
jeton csr --label ocsp --subject CN=ocsp --out ocsp.csr
holders=(rsa.csr ec.csr token.csr)

# The CA of OpenSSL: 30 certificates, of which each fifth is revoked and each seventh on hold.
case $KIND in
rsa:*) openssl genrsa -out old.key ${KIND#rsa:} ;;
ec:p256) openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out old.key ;;
*) openssl genpkey -algorithm $KIND -out old.key ;;
esac
openssl req -new -key old.key -subj '/O=Company/CN=Old CA' -out old.csr
sub_ca old
cat > demo/cnf <<END_OF_CNF
[ca]
default_ca = d
[d]
database = demo/index.txt
new_certs_dir = demo/newcerts
serial = demo/serial
crlnumber = demo/crlnumber
default_md = $([[ $KIND = ml-* ]] && echo default || echo sha256)
policy = p
x509_extensions = x
default_days = 300
default_crl_days = 45
copy_extensions = copy
[p]
commonName = supplied
[x]
basicConstraints = CA:FALSE
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
END_OF_CNF
touch demo/index.txt; echo 00E000 > demo/serial; echo 01 > demo/crlnumber
ca() { at openssl ca -batch -config demo/cnf -cert old.pem -keyfile old.key "$@"; }
for month in 7 8 9 10 11; do
    day 2026 $month 10
    for number in 1 2 3 4 5 6; do
        openssl req -new -key ec.key -subj /CN=demo$month-$number -addext "subjectAltName=DNS:demo$month-$number.example.org" -out demo.csr
        ca -notext -in demo.csr -out demo.pem
        count=$(((month - 7) * 6 + number))
        ((count % 5)) || ca -revoke demo.pem -crl_reason superseded
        ((count % 7)) || ca -revoke demo.pem -crl_hold holdInstructionReject
    done
    ca -gencrl -out demo/last.crl
done
for file in demo/newcerts/*; do cat $file old.pem > new/old/${file##*/}; done

day 2026 11 30
jeton key import old.key --token ca --label old
jeton cert import old.pem --token ca --label old
fails 3 jeton crl --token ca --label old --number 9
jeton ca adopt demo --token ca --label old --chain root.pem
rm old.key
jeton key generate --token ca --type $KIND --label fresh
jeton csr --token ca --label fresh --subject 'CN=Fresh CA,O=Company' --out fresh.csr
sub_ca fresh --permit dns:example.org --permit email:example.org --permit uri:.example.org --permit ip:10.0.0.0/8
jeton cert import fresh.pem --token ca --label fresh
jeton ca init --token ca --label fresh --chain root.pem
cat fresh.pem old.pem > issuing.pem

serial=0 count=0 number_of_held=0
issue() { # CA, profile, name, more options
    local options=(--subject "CN=$3,O=Company")
    case $2 in
    tls-server | tls-peer) options+=(--san dns:$3.example.org --san ip:10.1.2.3) ;;
    tls-client) options+=(--san uri:https://$3.example.org/) ;;
    kerberos-kdc) options+=(--san dns:$3.example.org) ;;
    email) options+=(--san email:$3@example.org) ;;
    kerberos-client) options+=(--san email:$3@example.org) ;;
    esac
    # No verifier restricts UPNs, so a CA with permitted names signs none.
    if [[ $1 = old && $2 = kerberos-client ]]; then options+=(--san upn:$3@EXAMPLE.ORG); fi
    serial=$((serial + 1))
    jeton cert issue ${request:-${holders[serial % 3]}} --token ca --label $1 --profile $2 "${options[@]}" --chain --out new/$1/$serial.pem "${@:4}"
}
profiles=(tls-server tls-client tls-peer code-signing email timestamping ocsp-signer sub-ca kerberos-kdc kerberos-client)
reasons=(superseded affiliation-changed superseded cessation-of-operation privilege-withdrawn unspecified)

# The middle of a month: new certificates, renewals, revocations, holds and their ends.
work() { # the number of the month
    if (($1 % 2)); then label=fresh; else label=old; fi
    for profile in "${profiles[@]}"; do
        # GnuTLS takes the CN of a CA that it verifies by itself for a DNS name, which `fresh` does not permit.
        if [[ $profile = sub-ca ]]; then issue old sub-ca sub-ca-$1; else issue $label $profile $profile-$1; fi
    done
    (jeton cert expiring --within 31d --json || [ $? = 1 ]) | jq -r '.[] | "\(.serial) \(.profile) \(.issuer)"' | head -9 > expiring
    while read -r number profile ca; do
        if [[ $profile = adopted ]]; then profile=tls-server; fi
        if [[ $ca = *Fresh* ]]; then label=fresh; else label=old; fi
        serial=$((serial + 1))
        jeton cert renew $number --profile $profile --token ca --label $label --chain --out new/$label/$serial.pem < /dev/null
    done < expiring
    jeton cert issued --status held --json | jq -r '.[].serial' > held
    jeton cert issued --status valid --json | jq -r '.[].serial' | shuf -n 6 --random-source=rsa.key > chosen
    while read -r number; do
        if ((number_of_held++ % 3)); then jeton cert release $number; else jeton cert revoke $number --reason superseded; fi
    done < held
    while read -r number; do
        count=$((count + 1))
        if ((count % 3)); then reason=${reasons[count % 6]}; else reason=hold; fi
        jeton cert revoke $number --reason $reason
    done < chosen
}

# The first day of a month: new CRLs, and signers of OCSP responses. The CRL of the root is for half a year.
publish() {
    for label in fresh old; do
        jeton crl --token ca --label $label --days 35 --out crls/$label.pem --force --json | jq -r "\"$label \\(.number)\"" >> numbers
        request=ocsp.csr issue $label ocsp-signer responder-$1-$label --days 32
        cp new/$label/$serial.pem signer-$label.pem
        for file in new/$label/*.pem; do
            number=$(openssl x509 -in $file -noout -serial)
            echo ${number#*=} >> $label.serials
            mv $file certificates/${number#*=}.pem
        done
    done
    if (($1 % 5 == 1)); then root crl --days 190 --out crls/root.pem --force; fi
    cat crls/*.pem > crls.pem
}

# Each writes a line for each certificate: its number, and good, revoked or expired. The list also has ended: revoked and
# expired, of which a verifier says one.
list_says() {
    jeton cert issued --json | jq -r --arg now "${now/ /T}Z" '.[] | "\(.serial | ltrimstr("00") | ascii_upcase) \(
        if .revoked then if .not_after < $now then "ended" else "revoked" end else {valid: "good"}[.status] // .status end)"'
}
openssl_says() {
    at openssl verify -x509_strict -crl_check_all -CRLfile crls.pem -CAfile root.pem -untrusted issuing.pem \
        certificates/*.pem 2> says/errors | sed -n 's/.*\/\(.*\)\.pem: OK/\1 good/p' || true
    awk '/^error [0-9]+ at/ { why = $2 == 23 ? "revoked" : $2 == 10 ? "expired" : $0 }
        /verification failed$/ { gsub(/.*\/|\.pem:/, "", $2); print $2, why; why = "" }' says/errors
}
gnutls_says() {
    export now
    ls certificates | xargs -P 2 -I{} bash -c 'LD_PRELOAD=$LIBRARY FAKETIME="@$now" certtool --verify --load-ca-certificate root.pem \
        --load-crl crls.pem --infile certificates/{} > certtool/{} 2>&1 || true'
    (cd certtool && grep '^Chain verification output' *) | sed 's/\.pem:/ /' |
        awk '{ print $1, /Not verified.*revoked/ ? "revoked" : /Not verified.*expired/ ? "expired" : /: Verified/ ? "good" : $0 }'
}
go_says() { ./verify $(date -d "$now" +%s); }
ocsp_says() {
    for label in fresh old; do
        xargs -n 16 < $label.serials | while read -r numbers; do
            options=(-issuer $label.pem -CAfile root.pem -verify_other issuing.pem)
            for number in $numbers; do options+=(-cert certificates/$number.pem); done
            openssl ocsp "${options[@]}" -no_nonce -reqout request
            jeton ocsp request --token ca --label ocsp --ca-cert $label.pem --signer-cert signer-$label.pem --out response --force
            at openssl ocsp "${options[@]}" -respin response > answer 2>&1
            grep -q 'Response verify OK' answer
            sed -n 's/^certificates.\(.*\).pem: /\1 /p' answer
        done
    done
}

all_agree() {
    list_says | sort > says/list
    for one in openssl $VERIFIERS; do
        ${one}_says | sort > says/$one
        join -a 1 -a 2 says/list says/$one > both
        fails 1 grep -v ' \(.*\) \1$\| ended revoked$\| ended expired$' both
    done
    ocsp_says | sort > says/ocsp
    diff <(sed 's/expired$/good/; s/ended$/revoked/' says/list) says/ocsp
    echo "$now:$(cut -d' ' -f2 says/list | sort | uniq -c | tr -s ' \n' ' ')" | tee -a days
}

for month in {1..24}; do
    day 2026 $((month + 11)) 15
    work $month
    day 2026 $((month + 12)) 1
    publish $month
    # The clock of each program starts again at `now`.
    now=${now/08:/12:}
    all_agree
done
[ "$(wc -l < says/list)" -ge 500 ]
[ "$(jeton cert issued --json | jq -r '.[].profile' | sort -u | wc -l)" = $((${#profiles[@]} + 1)) ]
[ -z "$(sort numbers | uniq -d)" ]
fails 1 grep 'list:' <(jeton doctor || true)

# nginx staples the response about its certificate, until the certificate is revoked.
request=ec.csr issue fresh tls-server stapled
certificate=new/fresh/$serial.pem
cat > nginx.conf <<END_OF_CONF
pid nginx.pid;
error_log nginx.log;
env FAKETIME;
events {}
http {
    access_log off;
    server {
        listen unix:nginx.socket ssl;
        ssl_certificate $PWD/$certificate;
        ssl_certificate_key $PWD/ec.key;
        ssl_stapling on;
        ssl_stapling_responder URL;
    }
}
END_OF_CONF
# A function in the background is a shell of its own, and the program would survive it.
moved=(env LD_PRELOAD=$LIBRARY FAKETIME="@$now")
"${moved[@]}" jeton ocsp --listen 127.0.0.1:0 --token ca --label ocsp --ca-cert fresh.pem \
    --signer-cert signer-fresh.pem > url &
trap 'kill $(jobs -p)' EXIT
until [ -s url ]; do sleep 0.1; done
sed -i "s|URL|$(cat url)/|" nginx.conf
nginx=("${moved[@]}" nginx -p $PWD -c nginx.conf -g 'daemon off; master_process off;')
stapled() { # what a client or nginx then says, and in which file
    for attempt in {1..50}; do
        at openssl s_client -unix nginx.socket -status -CAfile root.pem < /dev/null > client 2>&1 || true
        if grep "$1" $2; then return; fi
        sleep 0.1
    done
    return 1
}
"${nginx[@]}" &
stapled 'Cert Status: good' client
kill $!
wait $! || true
rm -f nginx.socket
jeton cert revoke $certificate --reason key-compromise
"${nginx[@]}" &
stapled 'certificate status "revoked"' nginx.log
fails 1 grep 'Cert Status' client
