#!/usr/bin/env bash
# Makes the secrets that compose.yaml mounts, one file each, in secrets/ or a folder of another name beside it. It never touches
# one that is there.
set -euo pipefail
umask 077
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-secrets}
mkdir -p "$folder"
# The folder keeps others out, and the files may be read: a container sees its files alone, as a user of its own.
chmod 700 "$folder"

# Writes standard input to a new file, whole or not at all.
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

for name in postgres_password redis_password key_pepper encryption_key gateway_card_key gateway_pepper grafana_password; do
  random "$name"
done
# What may be empty: old keys, with commas between them, and the server for receipts.
for name in old_key_peppers old_encryption_keys gateway_old_card_keys gateway_smtp_url; do
  [[ -e $folder/$name ]] || put "$name" < /dev/null
done
[[ -e $folder/database_url ]] ||
  printf 'postgres://payments:%s@postgres:5432/payments\n' "$(< "$folder/postgres_password")" | put database_url
[[ -e $folder/redis_url ]] || printf 'redis://default:%s@redis:6379\n' "$(< "$folder/redis_password")" | put redis_url
[[ -e $folder/redis_conf ]] || printf 'requirepass %s\n' "$(< "$folder/redis_password")" | put redis_conf
