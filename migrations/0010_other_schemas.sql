-- pgvector in a schema of its own, and an owner that is no superuser.

-- A generation and its table of vectors, wherever pgvector lives. Model names are data; only a number goes into the name of the table.
create or replace function ensure_generation(model text, wanted integer) returns bigint
    language plpgsql security definer set search_path = pg_catalog, public, pg_temp
    as $$
declare
    number bigint;
    target text;
    vectors text;
begin
    if wanted is null or wanted < 1 or wanted > 4000 then
        raise exception 'a generation has 1 to 4000 dimensions, not %', wanted using errcode = '22023';
    end if;
    perform pg_advisory_xact_lock(7205759403792793);
    insert into public.generations (model_id, dimensions) values (model, wanted) on conflict do nothing;
    select generation_id into number from public.generations where model_id = model and dimensions = wanted;
    target := 'vectors_' || number;
    if to_regclass('public.' || target) is null then
        select n.nspname into strict vectors from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector';
        execute format('create table public.%I (
            tenant_id  text   not null,
            passage_id bigint not null,
            embedding  %I.halfvec(%s) not null,
            primary key (tenant_id, passage_id),
            foreign key (tenant_id, passage_id) references public.passages (tenant_id, passage_id) on delete cascade
        ) with (autovacuum_vacuum_scale_factor = 0.05)', target, vectors, wanted);
        if wanted <= 1900 then
            execute format('alter table public.%I alter column embedding set storage plain', target);
        end if;
        execute format('alter table public.%I enable row level security', target);
        execute format('alter table public.%I force row level security', target);
        execute format('create policy own_rows on public.%I using (tenant_id = (select current_setting(''livedex.tenant'', true)))
                        with check (tenant_id = (select current_setting(''livedex.tenant'', true)))', target);
        execute format('grant select, insert, update, delete on public.%I to livedex_app', target);
    end if;
    return number;
end $$;

-- Whether a generation has so many vectors, over all tenants. The policies bind an owner that is no superuser as well, so it looks at one tenant after
-- the other; a table that is too small for so many rows needs no look.
create or replace function vectors_reach(generation bigint, most bigint) returns boolean
    language plpgsql set search_path = pg_catalog, public, pg_temp
    as $$
declare
    name text := 'vectors_' || generation;
    before text := current_setting('livedex.tenant', true);
    tenant text;
    found bigint := 0;
    more bigint;
begin
    if pg_table_size(('public.' || name)::regclass) < most * 24 then
        return false;
    end if;
    if (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) then
        execute format('select count(*) from (select from public.%I limit $1) v', name) using most into found;
        return found >= most;
    end if;
    for tenant in select * from public.tenant_ids() loop
        perform set_config('livedex.tenant', tenant, true);
        execute format('select count(*) from (select from public.%I where tenant_id = $1 limit $2) v', name) using tenant, most - found into more;
        found := found + more;
        exit when found >= most;
    end loop;
    perform set_config('livedex.tenant', coalesce(before, ''), true);
    return found >= most;
end $$;
