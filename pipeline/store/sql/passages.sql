-- name: existing_passages
-- Those that are known, whether they are to be cleared away one day, and nothing of their vectors.
-- $1 text: tenant  $2 bytea[]: hashes, ascending: the index is walked once
select p.hash, p.passage_id, (select true from unused_passages u where u.tenant_id = $1 and u.passage_id = p.passage_id) is not null as unused, false as lacks
from passages p where p.tenant_id = $1 and p.hash = any($2);

-- name: existing_passages_and_vectors
-- As `existing_passages`, with whether they lack a vector in the generation. $1 text: tenant  $2 bytea[]: hashes, ascending
select p.hash, p.passage_id, (select true from unused_passages u where u.tenant_id = $1 and u.passage_id = p.passage_id) is not null as unused,
       (select true from {vectors} v where v.tenant_id = $1 and v.passage_id = p.passage_id) is null as lacks
from passages p where p.tenant_id = $1 and p.hash = any($2);

-- name: insert_passages
-- Passages that are known stay as they are and do not come back. Beside the words, a tsvector holds exact tokens (behind '=') and the tenant (behind '@'), so that
-- the keyword index finds the passages of one tenant without reading its neighbours'.
-- $1 text: tenant  $2 bytea[]: hashes, ascending  $3 text[]: contents  $4 text[]: their words for the parser, see livedex.pipeline.store.keyword_analyzer
-- $5 text[]: their exact tokens, with U+001F between  $6 text: name of the text search configuration
insert into passages (tenant_id, hash, content, length, terms, tsv)
select $1, n.hash, n.content, char_length(n.content), counted.terms,
       n.tsv || array_to_tsvector(string_to_array(n.exact, U&'\001F') || ('@' || left(md5($1), 12)))
from (select u.hash, u.content, u.exact, to_tsvector($6::text::regconfig, u.words) as tsv
      from unnest($2::bytea[], $3::text[], $4::text[], $5::text[]) as u (hash, content, words, exact)
      offset 0) n
cross join lateral (select coalesce(sum(cardinality(w.positions)), 0) as terms from unnest(n.tsv) w) counted
on conflict (tenant_id, hash) do nothing
returning hash, passage_id;
