-- name: recall_state
-- What is known of the recall of an index, and of what would be measured now; one row. $1 text: tenant  $2 bigint: generation
-- $3 text: name of the vector index
select r.ef_search, r.recall, r.passages as measured_passages, r.index_oid as measured_index, r.measured_at < now() - interval '1 day' as is_old,
       to_regclass($3)::oid::bigint as index_oid, exists (select from pg_index i where i.indexrelid = to_regclass($3) and i.indisvalid) as indexed,
       coalesce((select t.passages from word_totals t where t.tenant_id = $1), 0) as passages
from (select) x left join vector_recall r on r.tenant_id = $1 and r.generation_id = $2;

-- name: learned_ef_search
-- $1 text: tenant  $2 bigint: generation
select ef_search from vector_recall where tenant_id = $1 and generation_id = $2;

-- name: sample_vectors
-- Stored vectors, spread evenly over the passages. $1 text: tenant  $2 bigint: vectors at most
with ends as (
    select min(v.passage_id) as low, max(v.passage_id) as high from {vectors} v where v.tenant_id = $1
)
select distinct on (n.passage_id) n.embedding
from ends e
cross join generate_series(e.low, e.high, greatest(1, (e.high - e.low) / $2)) as g (number)
cross join lateral (select v.passage_id, v.embedding from {vectors} v
                    where v.tenant_id = $1 and v.passage_id >= g.number order by v.passage_id limit 1) n
order by n.passage_id;

-- name: nearest_exactly
-- $1 text: tenant  $2 halfvec: query of length 1  $3 integer: passages
select (v.embedding <=> $2) + 0 as distance from {vectors} v where v.tenant_id = $1 order by 1 limit $3;

-- name: nearest_by_index
-- $1 text: tenant  $2 halfvec: query of length 1  $3 integer: passages
select v.embedding <=> $2 as distance from {vectors} v where v.tenant_id = $1 order by v.embedding <=> $2 limit $3;

-- name: save_recall
-- $1 text: tenant  $2 bigint: generation  $3 integer: ef_search  $4 double precision: recall  $5 bigint: passages  $6 bigint: index
insert into vector_recall (tenant_id, generation_id, ef_search, recall, passages, index_oid) values ($1, $2, $3, $4, $5, $6)
on conflict (tenant_id, generation_id) do update
set ef_search = excluded.ef_search, recall = excluded.recall, passages = excluded.passages, index_oid = excluded.index_oid, measured_at = now();
