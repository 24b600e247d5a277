# For the sections "When something is wrong" of the guides, which read it by `. "$CLIENTS/wrong.sh"`.

# The command must fail. What it said is shown, and kept in the file `said`.
refused() {
  if "$@" >said 2>&1; then cat said; return 1; fi
  cat said
}

# Tries the command until it does well, for ten seconds. A running client hears of what another process did to the token
# after a second at most.
soon() {
  local try
  for try in $(seq 50); do
    if "$@"; then return; fi
    sleep 0.2
  done
  return 1
}

# Initialises the token anew, as another program may do under a running client: the objects are gone, the label and the
# PINs are as before.
anew() {
  local OPENSSL_CONF= slot
  slot=$(pkcs11-tool --module "$MODULE" --list-slots | grep -B1 "token label *: $TOKEN" | sed -n 's/^Slot.*(\(0x[0-9a-f]*\)).*/\1/p')
  pkcs11-tool --module "$MODULE" --slot "$slot" --init-token --label "$TOKEN" --so-pin "$SO_PIN"
  pkcs11-tool --module "$MODULE" --token-label "$TOKEN" --login --login-type so --so-pin "$SO_PIN" --init-pin --pin "$PIN"
}

# Starts a client that goes on and does what lines tell it.
talk() { coproc client { "$@" 2>&1; }; }

# Tells it something; the answer must have the pattern.
ask() {
  local answer
  echo "$1" >&"${client[1]}"
  read -r -t 30 answer <&"${client[0]}" || return 1
  echo "client: $answer"
  grep -q "$2" <<<"$answer"
}
