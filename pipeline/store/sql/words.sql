-- name: word_count_changes
-- How far the counts lag behind; null in `counted` when nothing was ever counted. `added` stops counting above what it may be; `chunks` are
-- those there are now, never fewer than visible passages. $1 text: tenant  $2 double precision: share of the passages that may be added
select t.passages as counted, (select coalesce(sum(d.chunk_count), 0) from documents d where d.tenant_id = $1) as chunks,
       (select count(*) from (select from passages p where p.tenant_id = $1 and p.passage_id > coalesce(t.newest, 0)
                              limit 1 + ($2::float8 * coalesce(t.passages, 0))::bigint) n) as added
from (select) x left join word_totals t on t.tenant_id = $1;

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
insert into word_totals (tenant_id, passages, terms, newest)
select $1, count(*), coalesce(sum(p.terms), 0), (select coalesce(max(n.passage_id), 0) from passages n where n.tenant_id = $1)
from passages p
where p.tenant_id = $1 and exists (select from chunks c where c.tenant_id = $1 and c.passage_id = p.passage_id)
on conflict (tenant_id) do update set passages = excluded.passages, terms = excluded.terms, newest = excluded.newest, refreshed_at = now();

-- name: query_words
-- What the tenant's counts know of a query; one row. `words`, `repeats` (in the query) and `counts` run alongside, `counts` is null where a
-- word was not counted; `lags`: more than the share was added since; `stored`: about how many passages all tenants have.
-- $1 text: tenant  $2 text: name of the text search configuration  $3 text: words  $4 text[]: exact tokens
-- $5 double precision: share of the passages that may be added  $6 text: name of the vector index  $7 text: other spellings of the words
select q.words, q.repeats, q.counts, q.spellings, t.passages, t.terms,
       (select count(*) from (select from passages p where p.tenant_id = $1 and p.passage_id > t.newest
                              limit 1 + ($5::float8 * t.passages)::bigint) n) > $5 * t.passages as lags,
       (select c.reltuples from pg_class c where c.oid = 'passages'::regclass) as stored,
       exists (select from pg_index i where i.indexrelid = to_regclass($6) and i.indisvalid) as indexed
from (select array_agg(w.word order by w.place) as words, array_agg(w.repeats order by w.place) as repeats,
             array_agg(c.passages order by w.place) as counts, array_agg(w.word) filter (where w.is_spelling) as spellings
      from (select u.lexeme as word, greatest(1, cardinality(u.positions)) as repeats, row_number() over () as place, false as is_spelling
            from unnest(to_tsvector($2::text::regconfig, $3)) u
            union all
            select s.lexeme, 1, 500000 + row_number() over (), true
            from unnest(to_tsvector($2::text::regconfig, $7) ) s
            where s.lexeme <> all (tsvector_to_array(to_tsvector($2::text::regconfig, $3)))
            union all
            select e.word, 1, 1000000 + e.place, false from unnest($4::text[]) with ordinality as e (word, place)) w
      left join word_counts c on c.tenant_id = $1 and c.word = w.word) q
left join word_totals t on t.tenant_id = $1;

-- name: visible_words
-- A passage that the reader may read for each word, null where there is none. $1 tsquery[]: words
select place, passage_id from visible_words($1) order by place;

-- name: similar_words
-- Words of the tenant that may be like another one: those that stand in several passages, and those of the newest passages. Who may read them is
-- another question. $1 text: tenant  $2 text[]: patterns of which a word matches one  $3 integer, $4 integer: letters at least and at most
-- $5 bigint: newest passages
select c.word from word_counts c where c.tenant_id = $1 and length(c.word) between $3::integer and $4::integer and c.word like any ($2)
union
select u.lexeme from (select p.tsv from passages p where p.tenant_id = $1 order by p.passage_id desc limit $5) n cross join lateral unnest(n.tsv) u
where length(u.lexeme) between $3::integer and $4::integer and u.lexeme like any ($2);

-- name: sample_words
-- In how many of some passages, evenly spread, the words stand: what stands for the counts while these lag. `passages` is how many there
-- are, up to the bound. $1 text: tenant  $2 text[]: words, each as a tsquery  $3 bigint: passages looked at, about
-- $4 bigint: bound of `passages`
with ends as (
    select min(p.passage_id) as low, max(p.passage_id) as high from passages p where p.tenant_id = $1
), sampled as materialized (
    select distinct on (n.passage_id) n.passage_id, n.terms, n.tsv
    from ends e
    cross join generate_series(e.low, e.high, greatest(1, (e.high - e.low) / $3)) as g (number)
    cross join lateral (select p.passage_id, p.terms, p.tsv from passages p
                        where p.tenant_id = $1 and p.passage_id >= g.number order by p.passage_id limit 1) n
)
select (select count(*) from (select from passages p where p.tenant_id = $1 limit $4) b) as passages,
       (select count(*) from sampled) as sampled, (select coalesce(sum(s.terms), 0) from sampled s) as terms,
       array(select (select count(*) from sampled s where s.tsv @@ w.word::tsquery) from unnest($2::text[]) with ordinality as w (word, place)
             order by w.place) as counts;

-- name: feedback_terms
-- The words of passages, how often each stands there, and in how many passages of the tenant (null: not counted).
-- $1 text: tenant  $2 bigint[]: passages
select p.passage_id, u.lexeme as word, greatest(1, cardinality(u.positions)) as occurrences, c.passages
from passages p
cross join lateral unnest(p.tsv) u
left join word_counts c on c.tenant_id = $1 and c.word = u.lexeme
where p.tenant_id = $1 and p.passage_id = any($2) and u.lexeme !~ '^[@=]';

-- name: sample_frequencies
-- In how many of some passages, evenly spread, words stand; what stands for the counts while these lag. `sampled`: how many passages.
-- $1 text: tenant  $2 text[]: words  $3 bigint: passages looked at, about
with ends as (
    select min(p.passage_id) as low, max(p.passage_id) as high from passages p where p.tenant_id = $1
), sampled as materialized (
    select distinct on (n.passage_id) n.passage_id, n.tsv
    from ends e
    cross join generate_series(e.low, e.high, greatest(1, (e.high - e.low) / $3)) as g (number)
    cross join lateral (select p.passage_id, p.tsv from passages p
                        where p.tenant_id = $1 and p.passage_id >= g.number order by p.passage_id limit 1) n
)
select u.lexeme as word, count(*) as passages, (select count(*) from sampled) as sampled
from sampled s cross join lateral unnest(s.tsv) u
where u.lexeme = any($2::text[])
group by u.lexeme;
