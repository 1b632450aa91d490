# Setup for the guides, for bash and zsh, in the repository's folder while `./dev run` is running:
#
#     . examples/sandbox.sh

# The URL of the API and the keys of the test account `mock`.
read -r url key publishable_key account < <(python3 -c '
import json
sandbox = json.load(open(".dev/sandbox.json"))
mock = sandbox["accounts"]["mock"]
print(sandbox["api_url"], mock["secret_key"], mock["publishable_key"], mock["id"])')
export url key
# Lets Python programs import examples/client.py.
export PYTHONPATH=examples

# api PATH [curl options]: sends a request to the API. With -d it is a POST.
api() {
    local target=$1
    shift
    # For the timeout see docs/api.md, Time limits of a client.
    curl -sS --max-time 40 "$url$target" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' "$@"
}

# … | field data.0.id: prints one value of a response.
field() {
    python3 -c '
import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1].split("."):
    value = value[int(name) if name.isdigit() else name]
print(value if isinstance(value, str) else json.dumps(value))' "$1"
}

# until_is PATH FIELD VALUE: polls until the field has the value, and prints the response.
until_is() {
    until [ "$(api "$1" | field "$2")" = "$3" ]; do sleep 1; done
    api "$1"
}

# days_ahead N: prints the time N days after the account's current time, which a test clock may have advanced.
days_ahead() {
    api /v1/test_clock | python3 -c '
import datetime, json, sys
now = datetime.datetime.fromisoformat(json.load(sys.stdin)["now"].replace("Z", "+00:00"))
print((now + datetime.timedelta(days=int(sys.argv[1]))).isoformat())' "$1"
}
