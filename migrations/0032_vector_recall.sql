-- What the vector index of a generation finds of an exact scan, by tenant, and how far it has to look for that.

create table if not exists vector_recall (
    tenant_id     text    not null,
    generation_id bigint  not null references generations (generation_id) on delete cascade,
    ef_search     integer not null,                 -- hnsw.ef_search that reaches the target, or the largest that was tried
    recall        double precision not null,              -- share of the ten nearest that the index found, in [0, 1]
    passages      bigint  not null,                 -- of the tenant when it was measured
    index_oid     bigint  not null,                 -- of the index that was measured
    measured_at   timestamptz not null default now(),
    primary key (tenant_id, generation_id)
);

do $$
begin
    alter table vector_recall enable row level security;
    alter table vector_recall force row level security;
    drop policy if exists own_rows on vector_recall;
    create policy own_rows on vector_recall using (tenant_id = (select current_setting('livedex.tenant', true)))
        with check (tenant_id = (select current_setting('livedex.tenant', true)));
    grant select, insert, update, delete on vector_recall to livedex_app;
    drop trigger if exists refuse_deleted_tenant on vector_recall;
    create trigger refuse_deleted_tenant before insert on vector_recall for each statement execute function refuse_deleted_tenant();
end $$;
