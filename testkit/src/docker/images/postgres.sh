#!/usr/bin/env bash
# As the entry point of the official image does for a non-root user: initializes an empty data directory, then runs the
# command.
set -eo pipefail
POSTGRES_PASSWORD=$(< "$POSTGRES_PASSWORD_FILE")
chmod 0700 "$PGDATA" || :
chmod 03775 /var/run/postgresql || :
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  eval 'initdb --username="$POSTGRES_USER" --pwfile=<(printf "%s\n" "$POSTGRES_PASSWORD") '"$POSTGRES_INITDB_ARGS"
  # As in the image's sample configuration.
  echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
  printf '\nhost all all all scram-sha-256\n' >> "$PGDATA/pg_hba.conf"
  # During initialization it listens only on its Unix socket.
  PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -o "$(printf '%q ' "${@:2}" -c listen_addresses= -p 5432)" -w start
  psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --no-password --dbname postgres --command "CREATE DATABASE \"$POSTGRES_DB\""
  PGUSER=postgres pg_ctl -D "$PGDATA" -m fast -w stop
fi
unset POSTGRES_PASSWORD
exec "$@"
