-- Who is told outside of what becomes of documents, and what they have still to be told.
--
-- A notice is written by the transaction that it tells of. Nothing is written for a tenant that has no subscriber here.

create table subscribers (
    tenant_id     text    not null,
    name          text    not null,
    events        text[]  not null,                 -- of 'synced', 'deleted', 'dead'
    collections   text[]  not null default '{}',    -- only documents in, entering or leaving one of these; empty: all
    reads         boolean not null,                 -- reads for itself; false: is told at a URL, which only the settings know
    keep_days     double precision not null,        -- how long a notice waits at most
    configured    boolean not null default true,    -- false: the settings no longer name it; what waits is kept for a while
    failures      integer not null default 0,       -- in a row, without an answer of its own
    refusals      integer not null default 0,       -- in a row, of what it was sent
    paused_until  timestamptz,                      -- nothing is sent before
    stopped_at    timestamptz,                      -- it answered that it is gone; null: it is told
    problem       text,                             -- the last failure in words, without the URL; null: it works
    registered_at timestamptz not null default now(),
    primary key (tenant_id, name)
);

create table notices (
    notice_id   bigint generated always as identity primary key, -- grows with each notice of a document
    tenant_id   text    not null,
    subscriber  text    not null,
    event_id    uuid    not null,                   -- the same for every subscriber, and whenever it is sent again
    kind        text    not null,                   -- 'synced', 'deleted' or 'dead'
    document_id text,                               -- null: a dead letter whose bytes do not say
    version     bigint,
    data        jsonb   not null,                   -- the rest of what is told, see pipeline.notices
    at          timestamptz not null default now(), -- of what it tells
    attempts    integer not null default 0,         -- failed ones
    due_at      timestamptz not null default now(), -- not sent before
    taken_until timestamptz,                        -- somebody sends it now, unless he died
    foreign key (tenant_id, subscriber) references subscribers (tenant_id, name) on delete cascade
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);
create index notices_due on notices (tenant_id, subscriber, due_at, notice_id);
create index notices_by_document on notices (tenant_id, subscriber, document_id, notice_id);

do $$
declare
    name text;
begin
    foreach name in array array['subscribers', 'notices'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('create policy own_rows on %I using (tenant_id = (select current_setting(''livedex.tenant'', true)))
                        with check (tenant_id = (select current_setting(''livedex.tenant'', true)))', name);
        execute format('grant select, insert, update, delete on %I to livedex_app', name);
    end loop;
end $$;

-- Notices stand below subscribers, and are written beside rows that are guarded.
create trigger refuse_deleted_tenant before insert on subscribers for each statement execute function refuse_deleted_tenant();
