#!/usr/bin/env bash
# What the entry point of the official image does for a user that is not root and an empty data directory; then the command.
set -eo pipefail
POSTGRES_PASSWORD=$(< "$POSTGRES_PASSWORD_FILE")
chmod 0700 "$PGDATA" || :
chmod 03775 /var/run/postgresql || :
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  eval 'initdb --username="$POSTGRES_USER" --pwfile=<(printf "%s\n" "$POSTGRES_PASSWORD") '"$POSTGRES_INITDB_ARGS"
  # The image's sample of the configuration says so.
  echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
  printf '\nhost all all all scram-sha-256\n' >> "$PGDATA/pg_hba.conf"
  # For the time being it listens on its socket file alone.
  PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -o "$(printf '%q ' "${@:2}" -c listen_addresses= -p 5432)" -w start
  psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --no-password --dbname postgres --command "CREATE DATABASE \"$POSTGRES_DB\""
  PGUSER=postgres pg_ctl -D "$PGDATA" -m fast -w stop
fi
unset POSTGRES_PASSWORD
exec "$@"
