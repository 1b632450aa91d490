# What the guides begin with, for bash and zsh, in the folder of this repository while `./dev run` goes on:
#
#     . examples/sandbox.sh

# The addresses and the keys of the test account `mock`.
read -r url key publishable_key account < <(python3 -c '
import json
sandbox = json.load(open(".dev/sandbox.json"))
mock = sandbox["accounts"]["mock"]
print(sandbox["api_url"], mock["secret_key"], mock["publishable_key"], mock["id"])')
export url key
# Where programs in Python find examples/client.py.
export PYTHONPATH=examples

# api PATH [what curl takes]: asks the API. With -d it is a POST.
api() {
    local place=$1
    shift
    # Why 40 s: docs/api.md, Time limits of a client.
    curl -sS --max-time 40 "$url$place" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' "$@"
}

# … | field data.0.id: one value of an answer.
field() {
    python3 -c '
import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1].split("."):
    value = value[int(name) if name.isdigit() else name]
print(value if isinstance(value, str) else json.dumps(value))' "$1"
}

# until_is PATH FIELD VALUE: asks until it is so, and prints the answer.
until_is() {
    until [ "$(api "$1" | field "$2")" = "$3" ]; do sleep 1; done
    api "$1"
}

# days_ahead N: the instant that is so many days after the account's time, which a test clock may have moved.
days_ahead() {
    api /v1/test_clock | python3 -c '
import datetime, json, sys
now = datetime.datetime.fromisoformat(json.load(sys.stdin)["now"].replace("Z", "+00:00"))
print((now + datetime.timedelta(days=int(sys.argv[1]))).isoformat())' "$1"
}
