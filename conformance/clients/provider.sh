# Runs OpenSSL 3.5 or later with pkcs11-provider as the default provider of all algorithms: every key type, with keys of
# the token and with keys of files. Ends with an error if one of several hundred processes does not do what it should.
#
# Everything runs twice: with the default settings, then with `load-behavior = early`. By default the provider loads the
# module when it meets a URI or when OpenSSL generates a key, for example in a TLS handshake. Other processes do not use
# the token. A module that is loaded early also imports keys of files as session objects, and does hashes, ciphers, key
# derivation and random numbers.
#
# `cannot` names what the provider 1.3.0 itself cannot do, with other modules too. Such a process must fail in the
# described way. If a newer provider can do it, this script fails, so that the list stays true.
#
# Reads the variables MODULE, TOKEN, PIN and PORT, and writes into the working directory, which must be empty.
set -uo pipefail

# The configuration of the provider. Further arguments are more settings of the provider.
configure() {
  local more=("${@:2}")
  cat >"$1" <<END
openssl_conf = start
[start]
providers = providers
alg_section = algorithms
[algorithms]
default_properties = ?provider=pkcs11
[providers]
default = of_openssl
pkcs11 = of_token
[of_openssl]
activate = 1
[of_token]
pkcs11-module-path = $MODULE
pkcs11-module-token-pin = $PIN
$(((${#more[@]} == 0)) || printf '%s\n' "${more[@]}")
activate = 1
[req]
distinguished_name = name
[name]
[server]
subjectAltName = DNS:localhost, IP:127.0.0.1
END
}
# Writes the configurations, with these settings of the provider. `generate` and `envelope` use more settings than
# `token`, to avoid two defects of the provider.
configurations() {
  configure token.cnf "$@"
  configure generate.cnf "$@" 'pkcs11-module-encode-provider-uri-to-pem = true'
  configure cipher.cnf "$@" 'pkcs11-module-block-operations = cipher'
}
configurations

declare -A reason=(
  [genpkey]='makes the key and cannot write a file: the provider exports no private key, and by default no URI in its place'
  [rsa-pss]='asks the token for PKCS #1 v1.5: the provider treats an RSA-PSS key of the token as a key without restrictions'
  [dgst-verify]='ends with a segmentation fault: the provider reads the class of a key that OpenSSL passes as NULL'
  [ecb]='does not pad: the provider passes the data to CKM_AES_ECB, which has no padding'
  [cms-decrypt]='writes an empty file: the provider forgets the initialisation vector that OpenSSL passes before the key'
  [cms-encrypt]='writes a wrong initialisation vector: the provider does not return the one that it used'
  [cms-encrypt-ec]='cannot make the record of the recipient: the provider does not return the name of the cipher'
  [tls-ec]='makes a key of P-256 for the groups P-384 and P-521: the provider ignores the curve that OpenSSL asks for'
  [tls-ml-kem]='does not encode the public key for a group of ML-KEM alone'
)
declare -A seen=()
ran=0 failed=0 last=
# Runs openssl with the provider, and counts the process.
token() { last="$*"; counted token "$@" || fail "$@"; }
# The same, with settings so that the provider writes keys as URIs (`generate`) or does no ciphers (`envelope`).
generate() { counted generate "$@" || fail "$@"; }
envelope() { last="$*"; counted cipher "$@" || fail "$@"; }
counted() {
  ran=$((ran + 1))
  OPENSSL_CONF=$PWD/$1.cnf openssl "${@:2}" >said 2>&1 </dev/null
}
# Runs a command that must fail, for the reason with this name.
cannot() {
  seen[$1]=$((${seen[$1]-0} + 1))
  if "${@:2}" 2>crash; then echo 'the provider can do it now' >said; fail "$@"; fi
}
# Runs openssl without the provider.
plain() { OPENSSL_CONF=$PWD/plain.cnf openssl "$@" >said 2>&1 </dev/null || fail plain "$@"; }
same() { cmp "$1" "$2" >said 2>&1 || fail "compare $* after $last"; }
fail() {
  failed=$((failed + 1))
  printf 'failed: %s\n' "$*" >&2
  tail -n 4 said >&2
}
printf '[req]\ndistinguished_name = name\n[name]\n' >plain.cnf
uri() { printf 'pkcs11:token=%s;object=all-%s;type=%s' "$TOKEN" "$1" "${2-private}"; }
printf 'a message\n' >message
head -c 100000 /dev/urandom >long

# Makes a key pair in the token (label all-NAME). OpenSSL without the provider makes another one in a file (file-NAME).
pair() {
  local name=$1 place="pkcs11_uri:pkcs11:token=$TOKEN;object=all-$1"
  if ((made % 2)); then
    generate genpkey "${@:2}" -pkeyopt "$place" -out "$name.uri"
  else
    cannot genpkey not_with 'Error writing key' genpkey "${@:2}" -pkeyopt "$place" -out no.pem
  fi
  made=$((made + 1))
  token pkey -in "$(uri "$name" public)" -pubin -pubout -out "token-$name.pub"
  plain genpkey "${@:2}" -out "file-$name.pem"
  plain pkey -in "file-$name.pem" -pubout -out "file-$name.pub"
}
made=0
# Whether openssl succeeds, or fails in another way than with this message.
not_with() { counted token "${@:2}" || ! grep -q "$1" said; }
# Prints the name of a private key: for the token a URI or a file that contains the URI, otherwise a key file.
private() {
  if [ "$1" = file ]; then
    printf '%s' "file-$2.pem"
  elif [ $load = early ] && [ -e "$2.uri" ]; then
    printf '%s' "$2.uri"
  else
    uri "$2"
  fi
}

signing=(rsa rsa-3072 rsa-pss p256 p384 p521 ed25519 ed448 ml-dsa-44 ml-dsa-65 ml-dsa-87)
pair rsa -algorithm RSA -pkeyopt rsa_keygen_bits:2048
pair rsa-3072 -algorithm RSA -pkeyopt rsa_keygen_bits:3072
pair rsa-pss -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048
for size in 256 384 521; do pair p$size -algorithm EC -pkeyopt ec_paramgen_curve:P-$size; done
for name in ed25519 ed448 x25519 x448; do pair $name -algorithm "${name^^}"; done
for size in 44 65 87; do pair ml-dsa-$size -algorithm ML-DSA-$size; done
for size in 512 768 1024; do pair ml-kem-$size -algorithm ML-KEM-$size; done

kdf() {
  token kdf -keylen 40 -out ours "$@"
  plain kdf -keylen 40 -out theirs "$@"
  same ours theirs
}

# Runs openssl with the provider. Fails unless the provider calls this function of the module.
uses() {
  rm -f log
  PKCS11_PROVIDER_DEBUG=file:$PWD/log token "${@:2}"
  grep -aq "Calling $1\b" log || fail "without $1:" "${@:2}"
}
# A TLS server and a client, both with the provider. Further arguments are for both. Succeeds if the client gets a page.
handshakes() {
  local from=$1 name=$2 server
  ran=$((ran + 2))
  : >server.log
  OPENSSL_CONF=$PWD/token.cnf openssl s_server -accept 127.0.0.1:$PORT -naccept 1 "${@:3}" \
    -cert $from-$name.pem.crt -key "$(private $from $name)" -www >server.log 2>&1 </dev/null & server=$!
  until grep -q ACCEPT server.log; do
    kill -0 $server 2>/dev/null || { cp server.log said; return 1; }
    sleep 0.05
  done
  printf 'GET / HTTP/1.0\r\n\r\n' | OPENSSL_CONF=$PWD/token.cnf openssl s_client -ign_eof "${@:3}" \
    -connect 127.0.0.1:$PORT -verify_return_error -CAfile $from-$name.pem.crt -verify_ip 127.0.0.1 >said 2>&1 ||
    kill $server 2>/dev/null
  wait $server
  grep ':error:' server.log >>said
  ! grep -q ':error:' said && grep -q 'HTTP/1.0 200' said
}
serve() { handshakes "$@" || fail s_server "$@"; }
# Whether a handshake with this group succeeds, or fails in another way than with this message.
agrees() { handshakes file p256 -tls1_3 -groups "$2" || ! grep -q "$1" said; }
# Whether the provider writes CMS data for this certificate that OpenSSL decrypts with that key of a file.
encrypts() {
  counted token cms -encrypt -aes256 -binary -in message -out encrypted "$1" &&
    OPENSSL_CONF=$PWD/plain.cnf openssl cms -decrypt -recip "$1" -inkey "$2" -in encrypted -out read >said 2>&1 </dev/null &&
    cmp message read >said 2>&1
}
# Whether the provider writes anything when it decrypts CMS data for this certificate with that key.
decrypts() {
  counted token cms -decrypt -recip "$1" -inkey "$2" -in encrypted -out read
  [ -s read ]
}
# Whether openssl ends without a segmentation fault.
survives() {
  counted token "$@"
  (($? != 139))
}
# Whether ECB pads. The length of the data is a multiple of the block.
pads() { counted token enc -aes-128-ecb -K 000102030405060708090a0b0c0d0e0f -in long -out encrypted &&
  (($(stat -c %s encrypted) == $(stat -c %s long) + 16)); }
# Whether the module is loaded in a process with a key from that place.
loads() { [ $load = early ] || [ $1 = token ]; }
everything() {
  for from in token file; do
    for name in "${signing[@]}"; do
      key=$(private $from $name) public=$from-$name.pub cert=$from-$name.pem.crt
      [ "$from $name" != 'token rsa-pss' ] ||
        cannot rsa-pss not_with 'provider signature failure' req -new -key "$key" -subj /CN=none -out none.csr
      case $name in rsa-pss) pss=(-sigopt rsa_padding_mode:pss) ;; *) pss=() ;; esac
      case $name in
        rsa-pss) raw=(-rawin -digest sha256 -pkeyopt rsa_padding_mode:pss) ;;
        rsa* | p*) raw=(-rawin -digest sha256) ;;
        *) raw=(-rawin) ;;
      esac
      token req -x509 -key "$key" "${pss[@]}" -subj "/CN=$name" -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
        -addext keyUsage=digitalSignature,keyCertSign,keyEncipherment,keyAgreement -days 7 -out $cert
      token verify -check_ss_sig -CAfile $cert $cert
      plain verify -check_ss_sig -CAfile $cert $cert
      token req -new -key "$key" "${pss[@]}" -subj "/CN=issued by $name" -out $from-$name.csr
      token req -in $from-$name.csr -verify -noout
      token x509 -req -in $from-$name.csr -CA $cert -CAkey "$key" "${pss[@]}" -days 7 -out issued.pem
      plain verify -CAfile $cert issued.pem
      token x509 -in $cert -text -noout
      token pkeyutl -sign "${raw[@]}" -inkey "$key" -in message -out signature
      token pkeyutl -verify "${raw[@]}" -pubin -inkey $public -in message -sigfile signature
      plain pkeyutl -verify "${raw[@]}" -pubin -inkey $public -in message -sigfile signature
      case $name in
        rsa* | p*)
          for hash in sha256 sha512; do
            token dgst -$hash -sign "$key" "${pss[@]}" -out signature long
            if [ $load = early ]; then
              cannot dgst-verify survives dgst -$hash -verify $public "${pss[@]}" -signature signature long
            else
              token dgst -$hash -verify $public "${pss[@]}" -signature signature long
            fi
            plain dgst -$hash -verify $public "${pss[@]}" -signature signature long
          done
          ;;
      esac
      case $name in rsa* | p*) md=sha256 ;; ed448) md=shake256 ;; *) md=sha512 ;; esac
      case $name in rsa-pss) pss=(-keyopt rsa_padding_mode:pss) ;; esac
      token cms -sign -md $md -binary -nodetach -signer $cert -inkey "$key" "${pss[@]}" -in message -out signed
      token cms -verify -CAfile $cert -purpose any -in signed -out read
      same message read
      plain cms -verify -CAfile $cert -purpose any -in signed -out read
    done
    for name in rsa rsa-3072 p256 p384 p521; do
      cert=$from-$name.pem.crt key=$(private $from $name)
      if [ $load = default ]; then
        token cms -encrypt -aes256 -binary -in message -out encrypted $cert
      else
        case "$name $from" in
          rsa*file) cannot cms-encrypt encrypts $cert "$key" ;;
          p*) cannot cms-encrypt-ec not_with 'error setting recipientinfo' \
            cms -encrypt -aes256 -binary -in message -out encrypted $cert ;;
        esac
        case $name in
          rsa*) envelope cms -encrypt -aes256 -binary -in message -out encrypted $cert ;;
          p*) plain cms -encrypt -aes256 -binary -in message -out encrypted $cert ;;
        esac
      fi
      if loads $from; then
        cannot cms-decrypt decrypts $cert "$key"
        envelope cms -decrypt -recip $cert -inkey "$key" -in encrypted -out read
      else
        token cms -decrypt -recip $cert -inkey "$key" -in encrypted -out read
      fi
      same message read
    done
    for name in rsa rsa-3072; do
      cert=$from-$name.pem.crt key=$(private $from $name)
      oaep=(-pkeyopt rsa_padding_mode:oaep -pkeyopt rsa_oaep_md:sha256 -pkeyopt rsa_mgf1_md:sha256)
      token pkeyutl -encrypt -pubin -inkey $from-$name.pub "${oaep[@]}" -in message -out encrypted
      token pkeyutl -decrypt -inkey "$key" "${oaep[@]}" -in encrypted -out read
      same message read
    done
    for name in p256 p384 p521 x25519 x448; do
      case $name in p*) options=(-algorithm EC -pkeyopt ec_paramgen_curve:P-${name#p}) ;; *) options=(-algorithm "${name^^}") ;; esac
      plain genpkey "${options[@]}" -out theirs.pem
      plain pkey -in theirs.pem -pubout -out theirs.pub
      token pkeyutl -derive -inkey "$(private $from $name)" -peerkey theirs.pub -out ours
      plain pkeyutl -derive -inkey theirs.pem -peerkey $from-$name.pub -out theirs
      same ours theirs
    done
    for size in 512 768 1024; do
      token pkeyutl -encap -pubin -inkey $from-ml-kem-$size.pub -out encapsulated -secret theirs
      token pkeyutl -decap -inkey "$(private $from ml-kem-$size)" -in encapsulated -secret ours
      same ours theirs
      plain pkeyutl -encap -pubin -inkey $from-ml-kem-$size.pub -out encapsulated -secret theirs
      token pkeyutl -decap -inkey "$(private $from ml-kem-$size)" -in encapsulated -secret ours
      same ours theirs
    done
  done

  for hash in sha1 sha224 sha256 sha384 sha512 sha3-256 sha3-512; do
    token dgst -$hash -out ours message
    plain dgst -$hash -out theirs message
    same ours theirs
  done
  for bits in 128 192 256; do
    key=$(head -c $((bits / 8)) /dev/urandom | od -An -v -tx1 | tr -d ' \n') iv=000102030405060708090a0b0c0d0e0f
    for mode in cbc ctr ecb ofb cfb; do
      option=(-K "$key")
      case "$mode $load" in
        'ecb early') cannot ecb pads; option+=(-nopad) ;;
        ecb*) ;;
        *) option+=(-iv $iv) ;;
      esac
      token enc -aes-$bits-$mode "${option[@]}" -in long -out encrypted
      plain enc -d -aes-$bits-$mode "${option[@]}" -in encrypted -out read
      same long read
      token enc -d -aes-$bits-$mode "${option[@]}" -in encrypted -out read
      same long read
    done
  done
  token enc -aes-256-cbc -pbkdf2 -pass pass:secret -in long -out encrypted
  plain enc -d -aes-256-cbc -pbkdf2 -pass pass:secret -in encrypted -out read
  same long read
  for hash in SHA256 SHA384 SHA512; do
    kdf -kdfopt digest:$hash -kdfopt key:secret -kdfopt salt:salt -kdfopt info:label HKDF
    kdf -kdfopt digest:$hash -kdfopt pass:secret -kdfopt salt:saltsalt -kdfopt iter:1000 PBKDF2
    kdf -kdfopt digest:$hash -kdfopt secret:secret -kdfopt seed:seed TLS1-PRF
    kdf -kdfopt digest:$hash -kdfopt mac:HMAC -kdfopt key:secret -kdfopt salt:label -kdfopt info:context KBKDF
    token mac -digest $hash -macopt hexkey:00112233445566778899aabbccddeeff -in message -out ours HMAC
    plain mac -digest $hash -macopt hexkey:00112233445566778899aabbccddeeff -in message -out theirs HMAC
    same ours theirs
  done
  token rand -out random 64
  token list -key-managers -verbose
  for from in token file; do
    for name in "${signing[@]}"; do serve $from $name -tls1_3; done
    for name in rsa rsa-pss p256 p384 p521 ed25519 ed448; do serve $from $name -tls1_2; done
  done
  for group in P-256 X25519 X448 X25519MLKEM768 SecP256r1MLKEM768; do
    serve file p256 -tls1_3 -groups $group
  done
  for group in P-384 P-521; do cannot tls-ec agrees ssl_derive $group; done
  for group in MLKEM512 MLKEM768 MLKEM1024; do cannot tls-ml-kem agrees add_key_share $group; done
}

load=default
everything
echo "$ran processes with the default settings"
before=$ran
load=early
configurations 'pkcs11-module-load-behavior = early'
everything
uses C_DigestInit dgst -sha256 message
uses C_SignInit dgst -sha256 -sign file-p256.pem -out signature message
uses C_DeriveKey pkeyutl -derive -inkey file-p256.pem -peerkey token-p256.pub -out ours
uses C_EncryptInit enc -aes-128-cbc -K 000102030405060708090a0b0c0d0e0f -iv 000102030405060708090a0b0c0d0e0f -in long -out encrypted
uses C_DeriveKey kdf -keylen 32 -kdfopt digest:SHA256 -kdfopt key:secret -kdfopt salt:salt -kdfopt info:label -out ours HKDF
uses C_GenerateRandom rand -out random 64
echo "$((ran - before)) processes that load the module early"
for name in "${!reason[@]}"; do echo "cannot $name: ${reason[$name]} (${seen[$name]-0} processes)"; done | sort
echo "$failed failures"
((before >= 300 && failed == 0))
