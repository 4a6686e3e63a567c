-- Who may read a document, within its tenant.
--
-- Whoever reads on somebody's behalf names the principals in `livedex.principals`, as an array, for its transaction; '*' stands for who may read
-- everything, such as the stages. A transaction that says neither sees only what is for everybody: what is forgotten hides.

alter table documents
    add acl      text[],                            -- principals that may read it; null: everybody of the tenant; empty: nobody
    add next_acl text[];                            -- of a newer version that is not visible yet: who is not in this one does not read the old one any more

-- Whether a reader with these principals may read a document with these rights; null: one that reads everything. Without a setting of its own,
-- so that it becomes a part of the statement that uses it.
create function readable(acl text[], next_acl text[], principals text[]) returns boolean
    language sql immutable parallel safe
    return principals is null
        or ((acl is null or acl && principals) and (next_acl is null or next_acl && principals));

-- The same as `readable`, for every statement that reads documents, whatever it says itself.
create policy rights on documents as restrictive for select using (
    (select current_setting('livedex.principals', true) = '*')
    or ((acl is null or acl && (select nullif(nullif(current_setting('livedex.principals', true), ''), '*')::text[]))
        and (next_acl is null or next_acl && (select nullif(nullif(current_setting('livedex.principals', true), ''), '*')::text[]))));

-- Rights as they stand in JSON: a list of principals, or null.
create function acl_of(value jsonb) returns text[]
    language sql immutable parallel safe
    return case when jsonb_typeof(value) = 'array' then array(select jsonb_array_elements_text(value)) end;

-- The keyword leg's candidates: only passages that a document shows which the reader may read, so that others neither take the place of these nor
-- say anything by being counted. The policy on the rights holds in here, too; that on the tenant does not, as before.
create policy keyword_candidates on chunks for select to livedex_definer using (true);
create policy keyword_candidates on documents for select to livedex_definer using (true);
grant select on chunks, documents to livedex_definer;
create or replace function keyword_candidates(matching tsquery, words tsquery[], weights double precision[], mean_terms double precision, most integer)
    returns table (passage_id bigint, terms integer, ranks real[])
    language sql stable security definer parallel safe set search_path = pg_catalog, public, pg_temp
    as $$
        select p.passage_id, p.terms, found.ranks
        from public.passages p
        cross join lateral (
            select array_agg(w.rank) as ranks, sum(w.rank * w.weight) as total
            from (select ts_rank(p.tsv, u.word) as rank, u.weight from unnest(words, weights) as u (word, weight) offset 0) w) found
        where p.tsv @@ matching and p.tenant_id = current_setting('livedex.tenant', true)
          and ((select current_setting('livedex.principals', true) = '*')
               or exists (select from public.chunks c join public.documents d on d.doc_id = c.doc_id
                          where c.passage_id = p.passage_id and c.tenant_id = current_setting('livedex.tenant', true)
                            and d.tenant_id = current_setting('livedex.tenant', true)))
        order by found.total / (mean_terms + p.terms) desc, p.passage_id
        limit most
    $$;
