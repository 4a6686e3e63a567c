-- Which words stand in a passage that the reader of the transaction may read, for spelling suggestions: the number of one such passage for each word,
-- null where there is none. Stands outside the policy on the tenant as `keyword_candidates` does, and carries the tenant's predicate itself; the policy
-- on the rights holds in here, too.
create or replace function visible_words(words tsquery[]) returns table (place bigint, passage_id bigint)
    language sql stable security definer parallel safe set search_path = pg_catalog, public, pg_temp
    as $$
        select w.place,
               (select p.passage_id from public.passages p
                where p.tsv @@ w.word and p.tenant_id = current_setting('livedex.tenant', true)
                  and exists (select from public.chunks c join public.documents d on d.doc_id = c.doc_id
                              where c.passage_id = p.passage_id and c.tenant_id = current_setting('livedex.tenant', true)
                                and d.tenant_id = current_setting('livedex.tenant', true) and d.hidden_version is null)
                limit 1)
        from unnest(words) with ordinality as w (word, place)
        order by w.place
    $$;
revoke all on function visible_words(tsquery[]) from public;
grant execute on function visible_words(tsquery[]) to livedex_app;
grant create on schema public to livedex_definer;
alter function visible_words(tsquery[]) owner to livedex_definer;
revoke create on schema public from livedex_definer;
