#!/bin/sh
# Run once by the image of PostgreSQL, when it makes the database: the role that every process but `migrate` and `maintain` connects as.
# It owns nothing, and row level security binds it. The migration gives it what it needs.
set -eu
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv password APP_PASSWORD
create role livedex_app login password :'password' nosuperuser nobypassrls nocreatedb nocreaterole;
SQL
