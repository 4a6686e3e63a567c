-- The first schema: documents as lists of content-addressed passages, tenants apart by row level security.
--
-- Runs as the owner, in one transaction, once. The application connects as livedex_app, which owns nothing, is no superuser and
-- does not bypass row level security. livedex_definer owns the two functions that must look across the policy; nobody logs in as it.

create table tenants (
    tenant_id  text primary key,                    -- whose data it is
    created_at timestamptz not null default now()
);
comment on table tenants is 'Every tenant that ever had a document; background work goes through them one by one.';

create table collections (
    tenant_id  text not null,
    name       text not null,                       -- a named group of documents
    created_at timestamptz not null default now(),
    primary key (tenant_id, name)
);

create table documents (
    tenant_id       text   not null,
    document_id     text   not null,                -- as its source calls it
    doc_id          bigint generated always as identity unique, -- narrow key for chunks
    collection      text   not null default 'default',
    source          text   not null default '',
    state           text,                           -- of the synced version; null: never synced; 'deleted': a tombstone
    version         bigint,                         -- of what is visible; null: never synced
    digest          bytea,                          -- decides between equal versions, see pipeline.model.Fence
    pending_version bigint,                         -- the newest accepted version that has not ended yet
    pending_digest  bytea,
    dead_version    bigint,                         -- the newest version that ended among the dead letters
    dead_error      text,
    cut             text   not null default '',     -- how its text was cut: chunker version/size/overlap
    generation_id   bigint,                         -- the generation its passages had vectors in when it was synced
    title           text,
    uri             text,
    mime_type       text,
    metadata        jsonb  not null default '{}',
    chunk_count     integer not null default 0,
    error           text,                           -- what to do, where the state is one without text
    changed_at      timestamptz,                    -- at its source
    accepted_at     timestamptz not null default now(), -- of the newest accepted event
    synced_at       timestamptz,
    primary key (tenant_id, document_id)
);
create index documents_by_source on documents (tenant_id, source);
create index documents_under_way on documents (tenant_id, accepted_at) where pending_version is not null;

create table passages (
    passage_id bigint generated always as identity primary key,
    tenant_id  text    not null,
    hash       bytea   not null,                    -- SHA-256 of exactly what is embedded
    content    text    not null,
    length     integer not null,                    -- code points
    terms      integer not null default 0,          -- lexeme occurrences, the length in BM25
    tsv        tsvector storage main not null,      -- in the row: ranking reads it of thousands, and the content of few
    created_at timestamptz not null default now(),
    unique (tenant_id, hash),
    unique (tenant_id, passage_id)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create index passages_by_words on passages using gin (tsv) with (fastupdate = on, gin_pending_list_limit = 1024); -- kB; read in under 1 ms

create table unused_passages (
    tenant_id  text   not null,
    passage_id bigint not null,
    since      timestamptz not null default now(),  -- no document has shown it since then
    primary key (tenant_id, passage_id),
    foreign key (tenant_id, passage_id) references passages (tenant_id, passage_id) on delete cascade
);

create table chunks (
    tenant_id  text    not null,
    doc_id     bigint  not null references documents (doc_id) on delete cascade,
    position   bigint  not null,                    -- sparse: an insert renumbers nothing
    passage_id bigint  not null,
    gap        integer not null,                    -- code points from the end of the chunk before; negative: overlap
    length     integer not null,                    -- code points
    heading    text[]  not null default '{}',       -- from the outermost heading down
    primary key (doc_id, position),
    foreign key (tenant_id, passage_id) references passages (tenant_id, passage_id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);
create index chunks_by_passage on chunks (passage_id);

create table manifests (
    tenant_id   text   not null,
    document_id text   not null,
    version     bigint not null,
    digest      bytea  not null,
    outcome     text   not null,                    -- the state the document gets; 'deleted' leaves a tombstone
    keep        boolean not null,                   -- leave the visible chunks as they are
    cut         text   not null,
    error       text,
    attributes  jsonb  not null,
    passage_ids bigint[]  not null,
    gaps        integer[] not null,
    lengths     integer[] not null,
    headings    jsonb  not null,                    -- a path for each entry: {"paths": [[…]], "of": [index…]}
    accepted_at timestamptz not null,
    created_at  timestamptz not null default now(),
    primary key (tenant_id, document_id, version, digest)
);

create table blobs (
    tenant_id   text   not null,
    document_id text   not null,
    version     bigint not null,
    sha256      bytea  not null,
    content     bytea  not null,                    -- what was too large for a message
    created_at  timestamptz not null default now(),
    primary key (tenant_id, document_id, version, sha256)
);
alter table blobs alter column content set storage external;

create table generations (
    generation_id bigint generated always as identity primary key,
    model_id      text    not null,
    dimensions    integer not null,
    created_at    timestamptz not null default now(),
    unique (model_id, dimensions)
);
comment on table generations is 'One vector space each; its vectors stand in vectors_<generation_id>.';

create table word_counts (
    tenant_id text    not null,
    word      text    not null,                     -- a lexeme
    passages  integer not null,                     -- that hold it, at the last refresh
    primary key (tenant_id, word)
);
create table word_totals (
    tenant_id    text primary key,
    passages     bigint not null,                   -- counted at the last refresh
    terms        bigint not null,                   -- occurrences in all of them
    newest       bigint not null,                   -- passage there was then: later ones are not counted
    refreshed_at timestamptz not null default now()
);

create table dead_letters (
    letter_id   text primary key,
    tenant_id   text   not null,                    -- '' where the bytes do not say
    stage       text   not null,                    -- chunk, embed or sync
    document_id text,
    version     bigint,
    reason      text   not null,                    -- from a closed set
    detail      text   not null,                    -- what happened and what to do
    attempts    integer not null,
    topic       text   not null,
    place       jsonb  not null default '{}',       -- row, or partition and offset, and key
    headers     jsonb  not null default '{}',
    payload     bytea  not null,                    -- the exact bytes
    at          timestamptz not null default now()
);
create index dead_letters_by_tenant on dead_letters (tenant_id, at);

create table source_files (
    tenant_id   text   not null,
    source      text   not null,
    path        bytea  not null,                    -- relative to the folder, raw bytes
    document_id text   not null,
    fingerprint text   not null,                    -- size, times and inode; equal means: not read again
    sha256      bytea,                              -- of the content last published; null where it could not be read
    version     bigint not null,                    -- last published
    present     boolean not null default true,      -- false: its delete was published
    seen_at     timestamptz not null default now(),
    primary key (tenant_id, source, path)
);

create table reconcile_requests (
    request_id   bigint generated always as identity primary key,
    requested_at timestamptz not null default now(),
    handled_at   timestamptz,
    detail       text
);

create table health (
    component  text primary key,                    -- database, broker, embedder, source:NAME
    state      text not null,                       -- 'ok' or 'down'
    detail     text,
    since      timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

-- The queue: the columns that faststream-outbox 0.19 expects.
create table queue (
    id               bigint generated by default as identity primary key,
    queue            varchar(255) not null,
    payload          bytea not null,
    headers          jsonb,
    attempts_count   bigint not null default 0,
    deliveries_count bigint not null default 0,
    created_at       timestamptz not null default now(),
    next_attempt_at  timestamptz not null default now(),
    first_attempt_at timestamptz,
    last_attempt_at  timestamptz,
    acquired_at      timestamptz,
    acquired_token   uuid,
    timer_id         varchar(255),
    constraint queue_lease_ck check ((acquired_token is null) = (acquired_at is null))
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
create index queue_pending_idx on queue (queue, next_attempt_at, id) where acquired_token is null;
create unique index queue_timer_id_uq on queue (queue, timer_id) where timer_id is not null;
create index queue_leased_idx on queue (queue, acquired_at) where acquired_token is not null;

-- Row level security, forced also on the owner.
do $$
declare
    name text;
begin
    foreach name in array array['tenants', 'collections', 'documents', 'passages', 'unused_passages', 'chunks', 'manifests', 'blobs',
                                'word_counts', 'word_totals', 'dead_letters', 'source_files'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('create policy own_rows on %I using (tenant_id = (select current_setting(''livedex.tenant'', true)))
                        with check (tenant_id = (select current_setting(''livedex.tenant'', true)))', name);
        execute format('grant select, insert, update, delete on %I to livedex_app', name);
    end loop;
end $$;
grant select on generations to livedex_app;
grant select, insert, update, delete on reconcile_requests, health, queue to livedex_app;

-- Which tenants there are, for background work.
create policy every_row on tenants for select to livedex_definer using (true);
grant select on tenants to livedex_definer;
create function tenant_ids() returns setof text
    language sql stable security definer set search_path = pg_catalog, public, pg_temp
    as 'select tenant_id from public.tenants order by tenant_id';

-- A generation and its table of vectors. Model names are data; only a number goes into the name of the table.
create function ensure_generation(model text, wanted integer) returns bigint
    language plpgsql security definer set search_path = pg_catalog, public, pg_temp
    as $$
declare
    number bigint;
    target text;
begin
    if wanted is null or wanted < 1 or wanted > 4000 then
        raise exception 'a generation has 1 to 4000 dimensions, not %', wanted using errcode = '22023';
    end if;
    perform pg_advisory_xact_lock(7205759403792793);
    insert into public.generations (model_id, dimensions) values (model, wanted) on conflict do nothing;
    select generation_id into number from public.generations where model_id = model and dimensions = wanted;
    target := 'vectors_' || number;
    if to_regclass('public.' || target) is null then
        execute format('create table public.%I (
            tenant_id  text   not null,
            passage_id bigint not null,
            embedding  public.halfvec(%s) not null,
            primary key (tenant_id, passage_id),
            foreign key (tenant_id, passage_id) references public.passages (tenant_id, passage_id) on delete cascade
        ) with (autovacuum_vacuum_scale_factor = 0.05)', target, wanted);
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

-- The keyword leg's candidates. Under row level security PostgreSQL uses no GIN index for @@ unless the operator is leakproof, so this
-- function stands outside the policy and carries the tenant's predicate itself.
create policy keyword_candidates on passages for select to livedex_definer using (true);
grant select on passages to livedex_definer;
create function keyword_candidates(narrow tsquery, wide tsquery, normalization integer, most integer)
    returns table (passage_id bigint, rank real)
    language sql stable security definer parallel safe set search_path = pg_catalog, public, pg_temp
    as $$
        select p.passage_id, ts_rank(p.tsv, wide, normalization) as rank
        from public.passages p
        where p.tsv @@ narrow and p.tenant_id = current_setting('livedex.tenant', true)
        order by rank desc, p.passage_id
        limit most
    $$;

revoke all on function tenant_ids(), ensure_generation(text, integer), keyword_candidates(tsquery, tsquery, integer, integer) from public;
grant execute on function tenant_ids(), ensure_generation(text, integer), keyword_candidates(tsquery, tsquery, integer, integer) to livedex_app;
grant create on schema public to livedex_definer;
alter function tenant_ids() owner to livedex_definer;
alter function keyword_candidates(tsquery, tsquery, integer, integer) owner to livedex_definer;
revoke create on schema public from livedex_definer;
