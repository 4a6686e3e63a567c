-- Fields of documents for keyword search: title and file name of a document, and the heading path of each of its sections.
--
-- They are kept by document and section, not by passage: a passage is stored once however many documents show it, and neither a rename nor another
-- heading embeds anything.

create table if not exists document_fields (
    tenant_id text    not null,
    doc_id    bigint  not null references documents (doc_id) on delete cascade,
    section   uuid    not null,                     -- MD5 of the heading path; all zeros: the title and the file name
    terms     integer not null,                     -- lexemes, each counted once
    tsv       tsvector not null,                    -- without positions
    primary key (doc_id, section)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create index if not exists document_fields_by_words on document_fields using gin (tsv) with (fastupdate = on, gin_pending_list_limit = 1024);

create table if not exists field_word_counts (
    tenant_id text    not null,
    word      text    not null,                     -- a lexeme
    fields    integer not null,                     -- rows of document_fields that hold it, at the last refresh
    primary key (tenant_id, word)
);
create table if not exists field_totals (
    tenant_id text   primary key,
    fields    bigint not null,                      -- counted at the last refresh
    terms     bigint not null                       -- in all of them
);

-- Which settings the fields of a document were indexed with, and at which version: another one than the visible means that they are outdated.
alter table documents add column if not exists fields_cut text, add column if not exists fields_version bigint;
create index if not exists documents_without_fields on documents (tenant_id, doc_id) where chunk_count > 0 and fields_version is distinct from version;

do $$
declare
    name text;
begin
    foreach name in array array['document_fields', 'field_word_counts', 'field_totals'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('drop policy if exists own_rows on %I', name);
        execute format('create policy own_rows on %I using (tenant_id = (select current_setting(''livedex.tenant'', true)))
                        with check (tenant_id = (select current_setting(''livedex.tenant'', true)))', name);
        execute format('grant select, insert, update, delete on %I to livedex_app', name);
    end loop;
    for name in
        select t from tenant_tables() t
        where t in ('document_fields', 'field_word_counts', 'field_totals')
          and not exists (select from pg_trigger g where g.tgrelid = t::regclass and g.tgname = 'refuse_deleted_tenant')
    loop
        execute format('create trigger refuse_deleted_tenant before insert on %I for each statement execute function refuse_deleted_tenant()', name);
    end loop;
end $$;

-- As in 0006; fields of documents have no index by tenant either, and go with their documents.
create or replace function remove_tenant_rows(most integer) returns bigint
    language plpgsql set search_path = pg_catalog, public, pg_temp
    as $$
declare
    name text;
    removed bigint;
begin
    for name in select * from public.tenant_tables() t where t not in ('chunks', 'document_fields') loop
        execute format('delete from public.%1$I where ctid = any (array(select ctid from public.%1$I where tenant_id = $1 limit $2)) and tenant_id = $1', name)
            using current_setting('livedex.tenant', true), case name when 'documents' then greatest(most / 50, 1) else most end;
        get diagnostics removed = row_count;
        if removed > 0 then
            return removed;
        end if;
    end loop;
    return 0;
end $$;

-- The fields that match, of documents that the reader of the transaction may read; `held`: whether each of the words stands there. Stands outside
-- the policy on the tenant as `keyword_candidates` does, and carries the tenant's predicate itself.
drop policy if exists field_candidates on document_fields;
create policy field_candidates on document_fields for select to livedex_definer using (true);
grant select on document_fields to livedex_definer;
create or replace function field_candidates(matching tsquery, words tsquery[], weights double precision[], most integer)
    returns table (doc_id bigint, section uuid, terms integer, held boolean[])
    language sql stable security definer parallel safe set search_path = pg_catalog, public, pg_temp
    as $$
        select f.doc_id, f.section, f.terms, found.held
        from public.document_fields f
        cross join lateral (
            select array_agg(w.held) as held, sum(case when w.held then w.weight else 0 end) as total
            from (select f.tsv @@ u.word as held, u.weight from unnest(words, weights) as u (word, weight) offset 0) w) found
        where f.tsv @@ matching and f.tenant_id = current_setting('livedex.tenant', true)
          and ((select current_setting('livedex.principals', true) = '*')
               or exists (select from public.documents d where d.doc_id = f.doc_id and d.tenant_id = current_setting('livedex.tenant', true)))
        order by found.total / (8 + f.terms) desc, f.doc_id, f.section
        limit most
    $$;
revoke all on function field_candidates(tsquery, tsquery[], double precision[], integer) from public;
grant execute on function field_candidates(tsquery, tsquery[], double precision[], integer) to livedex_app;
grant create on schema public to livedex_definer;
alter function field_candidates(tsquery, tsquery[], double precision[], integer) owner to livedex_definer;
revoke create on schema public from livedex_definer;
