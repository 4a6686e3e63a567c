-- Who embeds a passage now, so that two processes that meet the same text do not both pay for it.
--
-- A holder lives for as long as its session holds the advisory lock of its number; the claims of one that died are taken over. Nothing is
-- lost with this table, so it is not in the log of the database.

create unlogged table embedding_claims (
    tenant_id     text   not null,
    generation_id bigint not null,
    passage_id    bigint not null,
    holder        bigint not null,                  -- number of an advisory lock
    primary key (tenant_id, generation_id, passage_id)
);
alter table embedding_claims enable row level security;
alter table embedding_claims force row level security;
create policy own_rows on embedding_claims using (tenant_id = (select current_setting('livedex.tenant', true)))
    with check (tenant_id = (select current_setting('livedex.tenant', true)));
grant select, insert, update, delete on embedding_claims to livedex_app;
