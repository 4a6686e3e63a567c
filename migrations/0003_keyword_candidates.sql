-- The keyword leg's candidates with all that BM25 needs of them, in one pass over the passages.
--
-- Ranking them by `ts_rank` first and reading the best once more took longer than reading each word's rank at once.

drop function keyword_candidates(tsquery, tsquery, integer, integer);

-- Stands outside the policy as the one before did, and carries the tenant's predicate itself. The order decides only where more than `most` match.
create function keyword_candidates(matching tsquery, words tsquery[], weights double precision[], mean_terms double precision, most integer)
    returns table (passage_id bigint, terms integer, ranks real[])
    language sql stable security definer parallel safe set search_path = pg_catalog, public, pg_temp
    as $$
        select p.passage_id, p.terms, found.ranks
        from public.passages p
        cross join lateral (
            select array_agg(w.rank) as ranks, sum(w.rank * w.weight) as total
            from (select ts_rank(p.tsv, u.word) as rank, u.weight from unnest(words, weights) as u (word, weight) offset 0) w) found
        where p.tsv @@ matching and p.tenant_id = current_setting('livedex.tenant', true)
        order by found.total / (mean_terms + p.terms) desc, p.passage_id
        limit most
    $$;

revoke all on function keyword_candidates(tsquery, tsquery[], double precision[], double precision, integer) from public;
grant execute on function keyword_candidates(tsquery, tsquery[], double precision[], double precision, integer) to livedex_app;
grant create on schema public to livedex_definer;
alter function keyword_candidates(tsquery, tsquery[], double precision[], double precision, integer) owner to livedex_definer;
revoke create on schema public from livedex_definer;
