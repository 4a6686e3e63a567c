-- name: vector_index_is_valid
-- $1 text: name of the index
select exists (select from pg_index i where i.indexrelid = to_regclass($1) and i.indisvalid);

-- name: vectors_reach
-- $1 bigint: the generation
-- $2 bigint: rows
select vectors_reach($1, $2);

-- name: drop_vector_index
drop index concurrently if exists {vectors}_by_nearness;

-- name: create_vector_index
create index concurrently {vectors}_by_nearness on {vectors} using hnsw (embedding halfvec_cosine_ops);

-- name: vector_index_is_large
-- Whether it was built with the larger parameters, or is not there. $1 text: name of the index
select coalesce((select 'm=32' = any(c.reloptions) from pg_class c where c.oid = to_regclass($1)), to_regclass($1) is null);

-- name: drop_next_vector_index
drop index concurrently if exists {vectors}_by_nearness_next;

-- name: create_large_vector_index
create index concurrently {vectors}_by_nearness_next on {vectors} using hnsw (embedding halfvec_cosine_ops) with (m = 32, ef_construction = 128);

-- name: replace_vector_index
drop index {vectors}_by_nearness;

-- name: rename_next_vector_index
alter index {vectors}_by_nearness_next rename to {vectors}_by_nearness;
