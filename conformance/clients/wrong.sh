# Functions for the sections "If something fails" of the guides, which read this file with `. "$CLIENTS/wrong.sh"`.

# Runs a command that must fail. Prints its output, and keeps it in the file `said`.
refused() {
  if "$@" >said 2>&1; then cat said; return 1; fi
  cat said
}

# Repeats the command until it succeeds, at most 50 times with pauses of 0.2 seconds. A running client notices a change
# by another process within one second.
soon() {
  local try
  for try in $(seq 50); do
    if "$@"; then return; fi
    sleep 0.2
  done
  return 1
}

# Initialises the token again, as another program may do while a client runs. The objects are removed; the label and the
# PINs stay.
initialise_again() {
  local OPENSSL_CONF= slot
  slot=$(pkcs11-tool --module "$MODULE" --list-slots | grep -B1 "token label *: $TOKEN" | sed -n 's/^Slot.*(\(0x[0-9a-f]*\)).*/\1/p')
  if ! pkcs11-tool --module "$MODULE" --slot "$slot" --init-token --label "$TOKEN" --so-pin "$SO_PIN" >said 2>&1; then
    cat said
    # An agent sees that the program under test has a session, and refuses. The block ends here then.
    if [ -n "${JETON_AGENT:-}" ] && grep CKR_SESSION_EXISTS said; then exit; fi
    return 1
  fi
  pkcs11-tool --module "$MODULE" --token-label "$TOKEN" --login --login-type so --so-pin "$SO_PIN" --init-pin --pin "$PIN"
}

# Starts a client that runs until its input ends. Each line of input is one command to it.
talk() { coproc client { "$@" 2>&1; }; }

# Sends the client a command. Its answer must match the pattern.
ask() {
  local answer
  echo "$1" >&"${client[1]}"
  read -r -t 30 answer <&"${client[0]}" || return 1
  echo "client: $answer"
  grep -q "$2" <<<"$answer"
}
