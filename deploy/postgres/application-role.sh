#!/bin/sh
# Run once by the image of PostgreSQL, when it makes the database: pgvector, and the roles that the services connect as. None is a superuser.
# livedex_owner owns the schema: `migrate` and `maintain`. livedex_app owns nothing and is bound by row level security: all others.
# On a database that is there already:  docker compose exec postgres sh /docker-entrypoint-initdb.d/application-role.sh
set -eu
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv app APP_PASSWORD
\getenv owner OWNER_PASSWORD
\getenv database POSTGRES_DB
set client_min_messages = warning;
create extension if not exists vector;
select format('create role %I', name)
from unnest(array['livedex_app', 'livedex_owner', 'livedex_definer']) name
where not exists (select from pg_roles where rolname = name) \gexec
alter role livedex_app login password :'app' nosuperuser nobypassrls nocreatedb nocreaterole;
alter role livedex_owner login password :'owner' nosuperuser nobypassrls nocreatedb nocreaterole;
alter role livedex_definer nologin nosuperuser nobypassrls nocreatedb nocreaterole;
grant livedex_app, livedex_definer to livedex_owner with inherit true, set true;
alter database :"database" owner to livedex_owner;
select format('alter table public.%I owner to livedex_owner', relname)
from pg_class c where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace and pg_get_userbyid(relowner) = current_user
    and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e') \gexec
select format('alter function %s owner to livedex_owner', p.oid::regprocedure)
from pg_proc p where pronamespace = 'public'::regnamespace and pg_get_userbyid(proowner) = current_user
    and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e') \gexec
SQL
