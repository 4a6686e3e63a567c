-- How much each credential may ask, counted over all processes; and the removal of everything that a tenant has.

-- Nothing is lost with these two, so they are not in the log of the database. They name credentials, no tenants, and hold nothing of documents.
create unlogged table rate_buckets (
    credential text primary key,                    -- id of a key, or hash of who a token is for
    tokens     double precision not null,           -- requests that may still be taken
    granted    integer not null,                    -- taken the last time
    filled_at  timestamptz not null
);
create unlogged table request_slots (
    credential text   not null,
    holder     bigint not null,                     -- a process, by a random number
    slots      integer not null,                    -- requests at once that it may have under way
    renewed_at timestamptz not null default now(),  -- a process that died renews no more
    primary key (credential, holder)
);
grant select, insert, update, delete on rate_buckets, request_slots to livedex_app;

-- One more request at once, if all processes together have fewer than `most`. The lock comes first, and what is counted is what was
-- committed before it was had.
create function take_request_slot(wanted text, taker bigint, most integer, lease_s double precision) returns boolean
    language plpgsql set search_path = pg_catalog, public, pg_temp
    as $$
begin
    perform pg_advisory_xact_lock(1818521445, hashtext(wanted));
    delete from public.request_slots s where s.credential = wanted and s.renewed_at < now() - make_interval(secs => lease_s);
    if (select coalesce(sum(s.slots), 0) from public.request_slots s where s.credential = wanted) >= most then
        return false;
    end if;
    insert into public.request_slots as s (credential, holder, slots) values (wanted, taker, 1)
    on conflict (credential, holder) do update set slots = s.slots + 1, renewed_at = now();
    return true;
end $$;

-- The tables that hold rows of tenants, in an order in which they can be emptied.
create function tenant_tables() returns setof text
    language sql stable set search_path = pg_catalog, public, pg_temp
    as $$
        select c.relname::text
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
        where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace and c.relname not in ('tenants', 'deleted_tenants')
        order by case c.relname when 'documents' then 2 when 'passages' then 3 else 1 end, c.relname
    $$;

-- How many rows the tenant of this transaction has in each table, under the policies.
create function count_tenant_rows() returns table (name text, number bigint)
    language plpgsql set search_path = pg_catalog, public, pg_temp
    as $$
begin
    for name in select * from public.tenant_tables() loop
        execute format('select count(*) from public.%I where tenant_id = $1', name) using current_setting('livedex.tenant', true) into number;
        return next;
    end loop;
end $$;

-- Remove rows of the tenant of this transaction, under the policies; how many. To be called until there are none. Chunks have no index by tenant
-- and go with their documents, of which there are therefore fewer at once.
create function remove_tenant_rows(most integer) returns bigint
    language plpgsql set search_path = pg_catalog, public, pg_temp
    as $$
declare
    name text;
    removed bigint;
begin
    for name in select * from public.tenant_tables() t where t <> 'chunks' loop
        execute format('delete from public.%1$I where ctid = any (array(select ctid from public.%1$I where tenant_id = $1 limit $2)) and tenant_id = $1', name)
            using current_setting('livedex.tenant', true), case name when 'documents' then greatest(most / 50, 1) else most end;
        get diagnostics removed = row_count;
        if removed > 0 then
            return removed;
        end if;
    end loop;
    return 0;
end $$;

-- Tables that came after the guard against deleted tenants.
do $$
declare
    name text;
begin
    for name in
        select t from tenant_tables() t
        where t not in ('chunks', 'unused_passages') and t not like 'vectors\_%'
          and not exists (select from pg_trigger g where g.tgrelid = t::regclass and g.tgname = 'refuse_deleted_tenant')
    loop
        execute format('create trigger refuse_deleted_tenant before insert on %I for each statement execute function refuse_deleted_tenant()', name);
    end loop;
end $$;
