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
