#!/bin/sh
# 11: testing the unhappy paths of a program without changing it.
#
#   $ 11_testing_a_program.sh /usr/lib/libsoftverbs.so
#
# The program under test is rping (of Debian's rdmacm-utils): a server, and a client that connects to it
# and exchanges messages. Both see only the device soft0 on the loopback interface. The faults are in
# SOFTVERBS_FAULTS. Replace rping with your own program.
set -eu

export LD_PRELOAD="$1" SOFTVERBS_NETDEVS=lo SOFTVERBS_REAL=0 SOFTVERBS_CM=soft
port=${2:-$((20000 + $$ % 20000))}
rules=$(mktemp)
server=
trap 'rm -f "$rules"; [ -z "$server" ] || kill "$server" 2>/dev/null || true' EXIT

# run CLIENT'S-RULES SERVER'S-RULES: whether the client succeeds.
run() {
  SOFTVERBS_FAULTS="$2" timeout 60 rping -s -a 127.0.0.1 -p "$port" -C 10 >/dev/null 2>&1 &
  server=$!
  attempts=0
  # The server may not listen yet: then the client is refused at once, and tries again.
  until SOFTVERBS_FAULTS="$1" timeout 60 rping -c -a 127.0.0.1 -p "$port" -C 10 >"$rules.log" 2>&1; do
    attempts=$((attempts + 1))
    if [ $attempts -ge 50 ] || ! grep -q 'REJECTED, error 8' "$rules.log"; then
      kill "$server" 2>/dev/null || true
      wait "$server" 2>/dev/null || true
      return 1
    fi
    sleep 0.1
  done
  wait "$server" || true
}

expect() { # expect succeeds|fails WHAT CLIENT'S-RULES SERVER'S-RULES
  if run "$3" "$4"; then outcome=succeeds; else outcome=fails; fi
  server=
  port=$((port + 1))
  if [ $outcome != "$1" ]; then
    echo "not as expected: $2: the client $outcome" >&2
    cat "$rules.log" >&2
    exit 1
  fi
  echo "ok: $2: the client $outcome"
}

cat >"$rules" <<'RULES'
# A bad network, the same in each run.
seed=42
lose rate=0.05
delay=2ms rate=0.05
duplicate rate=0.05
RULES

expect succeeds "the first two connection requests get lost" "lose cm=REQ first=2" ""
expect succeeds "a bad network" "@$rules" "@$rules"
expect fails "the server rejects" "" "reject"
expect fails "no memory can be registered" "fail=ENOMEM call=ibv_reg_mr" ""
expect fails "the client's third operation is refused" "complete=REM_ACCESS_ERR nth=3" ""
expect fails "a rule is not understood" "explode" ""
rm -f "$rules.log"
