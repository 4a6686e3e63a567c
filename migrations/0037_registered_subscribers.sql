-- Subscribers that were created over the API: where they are sent notifications, and what signs these. Those of livedex.toml have no row here.
-- A row of `subscribers` stands beside each; its absence, or `configured = false`, is mended by the role `notify`.

create table if not exists registered_subscribers (
    tenant_id   text    not null,
    name        text    not null,
    url         text,                               -- null: it reads its notifications itself
    secret      text,                               -- signs what is sent, as Standard Webhooks write it; null without a url
    events      text[]  not null,                   -- of 'synced', 'deleted', 'dead'
    collections text[]  not null default '{}',
    attempts    integer not null default 10,
    keep_days   double precision not null default 7,
    created_at  timestamptz not null default now(),
    primary key (tenant_id, name)
);

do $$
begin
    alter table registered_subscribers enable row level security;
    alter table registered_subscribers force row level security;
    drop policy if exists own_rows on registered_subscribers;
    create policy own_rows on registered_subscribers using (tenant_id = (select current_setting('livedex.tenant', true)))
        with check (tenant_id = (select current_setting('livedex.tenant', true)));
    grant select, insert, update, delete on registered_subscribers to livedex_app;
    drop trigger if exists refuse_deleted_tenant on registered_subscribers;
    create trigger refuse_deleted_tenant before insert on registered_subscribers for each statement execute function refuse_deleted_tenant();
end $$;

-- Tenants that have registered subscribers, so that the role `notify` need not ask every tenant. Names alone.
drop policy if exists every_row on registered_subscribers;
create policy every_row on registered_subscribers for select to livedex_definer using (true);
grant select on registered_subscribers to livedex_definer;
create or replace function subscriber_tenants() returns setof text
    language sql stable security definer set search_path = pg_catalog, public, pg_temp
    as 'select distinct tenant_id from public.registered_subscribers order by tenant_id';
revoke all on function subscriber_tenants() from public;
grant execute on function subscriber_tenants() to livedex_app;
grant create on schema public to livedex_definer;
alter function subscriber_tenants() owner to livedex_definer;
revoke create on schema public from livedex_definer;
