-- What the webhook receiver has given away: the newest version of each document that was written through it, and the version that a delivery got,
-- so that it gets the same one when it comes again. Both are written before the event is published: a version that nothing came of harms nobody.

create table issued_versions (
    tenant_id   text   not null,
    document_id text   not null,
    version     bigint not null,                    -- the newest that was given; -1: none yet
    issued_at   timestamptz not null default now(),
    primary key (tenant_id, document_id)
);

create table deliveries (
    tenant_id   text   not null,
    key         bytea  not null,                    -- SHA-256 of sender, id of the delivery, and document
    version     bigint not null,                    -- that it was given
    received_at timestamptz not null default now(),
    primary key (tenant_id, key)
);
create index deliveries_by_age on deliveries (tenant_id, received_at);

do $$
declare
    name text;
begin
    foreach name in array array['issued_versions', 'deliveries'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('create policy own_rows on %I using (tenant_id = (select current_setting(''livedex.tenant'', true)))
                        with check (tenant_id = (select current_setting(''livedex.tenant'', true)))', name);
        execute format('grant select, insert, update, delete on %I to livedex_app', name);
    end loop;
end $$;
