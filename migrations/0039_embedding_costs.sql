-- What embedding costs, by tenant, day, source and model.
--
-- A row has a slot beside its key, so that transactions of several connections do not wait for each other until they are on disk; readers add the
-- slots up, and maintenance merges those of past days.

create table if not exists embedding_costs (
    tenant_id       text    not null,
    day             date    not null,                   -- in UTC
    source          text    not null,                   -- '' for documents without one, and for queries
    model_id        text    not null,                   -- name of the vector space
    slot            smallint not null,
    texts           bigint  not null default 0,         -- passages that were embedded
    tokens          bigint  not null default 0,         -- of these: as the provider counted them, or estimated
    cost            numeric not null default 0,         -- of these tokens, US dollars, by the price at the time
    unpriced_tokens bigint  not null default 0,         -- of these tokens, those without a known price
    reused_texts    bigint  not null default 0,         -- passages of new versions that had a vector already
    saved_tokens    bigint  not null default 0,         -- of these, estimated
    saved_cost      numeric not null default 0,
    queries         bigint  not null default 0,         -- texts that were embedded for a search, and not stored
    query_tokens    bigint  not null default 0,
    query_cost      numeric not null default 0,
    primary key (tenant_id, day, source, model_id, slot)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);

-- What was embedded for a version under way; null: nothing.
alter table manifests add column if not exists embedded_texts integer, add column if not exists embedded_tokens bigint,
    add column if not exists estimated_tokens bigint;
-- US dollars of the tokens in `work`; null: not known. Not in `work`, of which an older release reads every field.
alter table documents add column if not exists work_cost numeric;
-- What the version took, {"embedded", "reused", "deleted", "tokens", "cost"}; not in `data`, of which an older release knows every field.
alter table notices add column if not exists bill jsonb;

do $$
declare
    name text;
begin
    foreach name in array array['embedding_costs'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('drop policy if exists own_rows on %I', name);
        execute format('create policy own_rows on %I using (tenant_id = (select current_setting(''livedex.tenant'', true)))
                        with check (tenant_id = (select current_setting(''livedex.tenant'', true)))', name);
        execute format('grant select, insert, update, delete on %I to livedex_app', name);
        execute format('drop trigger if exists refuse_deleted_tenant on %I', name);
        execute format('create trigger refuse_deleted_tenant before insert on %I for each statement execute function refuse_deleted_tenant()', name);
    end loop;
end $$;
