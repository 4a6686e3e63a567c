-- API keys, and tenants that were deleted.
--
-- A key is 256 random bits that are shown once; what stands here is the hash of it. Whoever comes with a key names no tenant, so finding one
-- looks across the policy, in a function that answers for exactly one id.

create table api_keys (
    key_id       text primary key,                  -- the part of the key that is no secret
    tenant_id    text   not null,
    name         text   not null,                   -- who holds it, for people
    sha256       bytea  not null,                   -- of the whole key
    scopes       text[] not null,
    created_at   timestamptz not null default now(),
    expires_at   timestamptz,                       -- null: never
    revoked_at   timestamptz,
    last_used_at timestamptz                        -- to the minute
);
create index api_keys_by_tenant on api_keys (tenant_id, created_at);

create table deleted_tenants (
    tenant_id  text primary key,
    deleted_at timestamptz not null default now()
);
comment on table deleted_tenants is 'Nothing is written for these, so that an event under way does not bring a tenant back.';

do $$
declare
    name text;
begin
    foreach name in array array['api_keys', 'deleted_tenants'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('create policy own_rows on %I using (tenant_id = (select current_setting(''livedex.tenant'', true)))
                        with check (tenant_id = (select current_setting(''livedex.tenant'', true)))', name);
        execute format('grant select, insert, update, delete on %I to livedex_app', name);
    end loop;
end $$;

-- What is known of one key. The hash is compared by who asks, in constant time.
create policy every_row on api_keys for select to livedex_definer using (true);
grant select on api_keys to livedex_definer;
create function find_api_key(wanted text)
    returns table (tenant_id text, sha256 bytea, scopes text[], revoked boolean, expires_in_s double precision, used_before_s double precision)
    language sql stable security definer set search_path = pg_catalog, public, pg_temp
    as $$
        select k.tenant_id, k.sha256, k.scopes, k.revoked_at is not null, extract(epoch from k.expires_at - now())::float8,
               extract(epoch from now() - k.last_used_at)::float8
        from public.api_keys k where k.key_id = wanted
    $$;

-- Whether there is any key that opens something.
create function has_api_keys() returns boolean
    language sql stable security definer set search_path = pg_catalog, public, pg_temp
    as $$
        select exists (select from public.api_keys k where k.revoked_at is null and (k.expires_at is null or k.expires_at > now()))
    $$;

revoke all on function find_api_key(text), has_api_keys() from public;
grant execute on function find_api_key(text), has_api_keys() to livedex_app;
grant create on schema public to livedex_definer;
alter function find_api_key(text) owner to livedex_definer;
alter function has_api_keys() owner to livedex_definer;
revoke create on schema public from livedex_definer;

-- Refuses what would be written for a deleted tenant. A transaction that writes holds the lock shared until its end, and who deletes takes it
-- alone before the mark is set: so none that saw no mark is still under way once it is set. Tables below one of these need no trigger.
create function refuse_deleted_tenant() returns trigger
    language plpgsql set search_path = pg_catalog, public, pg_temp
    as $$
declare
    tenant text := current_setting('livedex.tenant', true);
begin
    perform pg_advisory_xact_lock_shared(1818521444, hashtext(tenant));
    if exists (select from public.deleted_tenants d where d.tenant_id = tenant) then
        raise exception 'the tenant was deleted' using errcode = 'LX001';
    end if;
    return null;
end $$;
do $$
declare
    name text;
begin
    foreach name in array array['tenants', 'collections', 'documents', 'passages', 'manifests', 'blobs', 'word_counts', 'word_totals', 'dead_letters',
                                'source_files', 'embedding_claims', 'api_keys'] loop
        execute format('create trigger refuse_deleted_tenant before insert on %I for each statement execute function refuse_deleted_tenant()', name);
    end loop;
end $$;
