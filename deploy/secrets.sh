#!/usr/bin/env bash
# Creates the secrets that compose.yaml mounts, one file each, in secrets/ or the folder given as argument. Never
# changes an existing file.
set -euo pipefail
umask 077
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-secrets}
mkdir -p "$folder"
# The folder's permissions protect the files. The files themselves are world-readable, because containers run as other users.
chmod 700 "$folder"

# Writes standard input to a new file atomically.
put() {
  rm -f "$folder/$1.new"
  cat > "$folder/$1.new"
  chmod 444 "$folder/$1.new"
  mv "$folder/$1.new" "$folder/$1"
}

random() {
  [[ -e $folder/$1 ]] && return
  local value
  value=$(od -An -v -tx1 -N32 /dev/urandom | tr -d " \n")
  put "$1" <<< "$value"
}

roles="api worker scheduler gateway ctl"
for name in postgres_password programs_password gateway_password reader_password redis_password key_pepper encryption_key \
  gateway_card_key gateway_pepper grafana_password $(printf 'redis_%s_password ' $roles); do
  random "$name"
done
# Optional secrets, created empty: old keys (comma-separated), and the mail servers.
for name in old_key_peppers old_encryption_keys gateway_old_card_keys gateway_smtp_url smtp_url; do
  [[ -e $folder/$name ]] || put "$name" < /dev/null
done

# Certificates for Postgres and Redis, valid for ten years. The key of the authority is discarded after signing these two.
if [[ ! -e $folder/authority ]]; then
  command -v openssl > /dev/null || { echo "deploy/secrets.sh needs openssl to create the certificates of Postgres and Redis" >&2; exit 1; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  new_key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$work/$1.key"; }
  new_key authority
  openssl req -x509 -new -key "$work/authority.key" -subj "/CN=unified-payments" -days 3650 -out "$work/authority" 2> /dev/null
  for name in postgres redis; do
    new_key "$name"
    openssl req -new -key "$work/$name.key" -subj "/CN=$name" -out "$work/$name.csr" 2> /dev/null
    openssl x509 -req -in "$work/$name.csr" -CA "$work/authority" -CAkey "$work/authority.key" -CAcreateserial -days 3650 \
      -extfile <(printf 'subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth\n' "$name") -out "$work/$name.crt" 2> /dev/null
    put "${name}_certificate" < "$work/$name.crt"
    put "${name}_key" < "$work/$name.key"
  done
  put authority < "$work/authority"
fi

# The owner's URL is for migrations only. The programs, the gateway and read-only users have roles that own no objects.
url() {
  [[ -e $folder/$1 ]] && return
  printf 'postgres://%s:%s@postgres:5432/payments?sslmode=verify-full&sslrootcert=/run/secrets/authority\n' \
    "$2" "$(< "$folder/$3")" | put "$1"
}
url database_url payments postgres_password
url programs_database_url payments_programs programs_password
url gateway_database_url payments_gateway gateway_password
url reader_database_url payments_reader reader_password

# Each program's user of Redis has the commands, keys and channels that it needs; `default` is for operators. The portal
# is the user `api`, because it calls /v1 within its own process.
for role in $roles; do
  [[ -e $folder/${role}_redis_url ]] ||
    printf 'rediss://%s:%s@redis:6379\n' "$role" "$(< "$folder/redis_${role}_password")" | put "${role}_redis_url"
done
user() { printf 'user %s on >%s -@all +@connection -@admin -@dangerous %s\n' "$1" "$(< "$folder/redis_$1_password")" "$2"; }
scripts="+eval +evalsha +script|load +time +get +set +del"
[[ -e $folder/redis_users ]] || {
  printf 'user default on >%s ~* &* +@all\n' "$(< "$folder/redis_password")"
  user api "~queue:* ~limit:* &reply:* +xadd +subscribe +unsubscribe $scripts"
  user worker "~queue:* &reply:* +@stream +publish +multi +exec +eval +evalsha +script|load +time"
  user scheduler "~queue:* +xadd +xlen +xrange +xpending +time"
  user gateway "~limit:* $scripts"
  user ctl "~queue:* &reply:* +xadd +xlen +xrange +xpending +publish +time"
} | put redis_users
