-- name: word_count_changes
-- How far the counts lag behind what is visible; `counted` is null when nothing was ever counted. $1 text: tenant
select max(t.passages) as counted, count(*) as passages, count(*) filter (where p.created_at > t.refreshed_at) as added
from passages p left join word_totals t on t.tenant_id = p.tenant_id
where p.tenant_id = $1 and exists (select from chunks c where c.tenant_id = $1 and c.passage_id = p.passage_id);

-- name: lock_word_counts
-- False when somebody counts already. $1 text: tenant
select pg_try_advisory_xact_lock(hashtextextended('word_counts ' || $1, 0));

-- name: count_words
-- Words that stand in few passages are left out: no count means rare. Only rows that change are written.
-- $1 text: tenant  $2 integer: passages that a word must stand in to be kept
with counted as materialized (
    select s.word, s.ndoc as passages
    from ts_stat('select p.tsv from passages p where p.tenant_id = current_setting(''livedex.tenant'')
                  and exists (select from chunks c where c.tenant_id = p.tenant_id and c.passage_id = p.passage_id)') s
    where s.ndoc >= $2 and s.word not like '@%'
), gone as (
    delete from word_counts w where w.tenant_id = $1 and not exists (select from counted c where c.word = w.word)
)
insert into word_counts as w (tenant_id, word, passages)
select $1, c.word, c.passages from counted c
on conflict (tenant_id, word) do update set passages = excluded.passages where w.passages <> excluded.passages;

-- name: count_passages
-- $1 text: tenant
insert into word_totals (tenant_id, passages, terms)
select $1, count(*), coalesce(sum(p.terms), 0)
from passages p
where p.tenant_id = $1 and exists (select from chunks c where c.tenant_id = $1 and c.passage_id = p.passage_id)
on conflict (tenant_id) do update set passages = excluded.passages, terms = excluded.terms, refreshed_at = now();

-- name: query_words
-- What the tenant's counts know of a query; one row. `words` and `counts` run alongside, `counts` is null where a word was not counted.
-- $1 text: tenant  $2 text: name of the text search configuration  $3 text: words  $4 text[]: exact tokens
-- $5 text: name of the vector index
select array_agg(w.word order by w.place) as words, array_agg(c.passages order by w.place) as counts,
       (select t.passages from word_totals t where t.tenant_id = $1) as passages,
       (select t.terms from word_totals t where t.tenant_id = $1) as terms,
       exists (select from pg_index i where i.indexrelid = to_regclass($5) and i.indisvalid) as indexed
from unnest(tsvector_to_array(to_tsvector($2::text::regconfig, $3)) || $4::text[]) with ordinality as w (word, place)
left join word_counts c on c.tenant_id = $1 and c.word = w.word;
