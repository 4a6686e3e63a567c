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
-- Passages that are known stay as they are and do not come back. Beside the words, a tsvector holds other spellings of them (without positions), exact
-- tokens (behind '=') and the tenant (behind '@'), so that the keyword index finds the passages of one tenant without reading its neighbours'.
-- $1 text: tenant  $2 bytea[]: hashes, ascending  $3 text[]: contents  $4 text[]: their words for the parser, see livedex.pipeline.store.keyword_analyzer
-- $5 text[]: their exact tokens, with U+001F between  $6 text: name of the text search configuration  $7 text[]: other spellings of the words
-- $8 integer: version of the analyzer
insert into passages (tenant_id, hash, content, length, terms, tsv, words_version)
select $1, n.hash, n.content, char_length(n.content), counted.terms,
       n.tsv || strip(to_tsvector($6::text::regconfig, n.spellings))
             || array_to_tsvector(string_to_array(n.exact, U&'\001F') || ('@' || left(md5($1), 12))), $8::smallint
from (select u.hash, u.content, u.exact, u.spellings, to_tsvector($6::text::regconfig, u.words) as tsv
      from unnest($2::bytea[], $3::text[], $4::text[], $5::text[], $7::text[]) as u (hash, content, words, exact, spellings)
      offset 0) n
cross join lateral (select coalesce(sum(cardinality(w.positions)), 0) as terms from unnest(n.tsv) w) counted
on conflict (tenant_id, hash) do nothing
returning hash, passage_id;

-- name: outdated_passages
-- Passages that an older analyzer read, locked until the transaction ends; none that another process is at. $1 text: tenant  $2 integer: version
-- of the analyzer  $3 integer: passages at most
select p.passage_id, p.content from passages p
where p.tenant_id = $1 and p.words_version < 2 and p.words_version < $2::integer
order by p.passage_id
limit $3::integer
for no key update skip locked;

-- name: rewrite_words
-- $1 text: tenant  $2 bigint[]: passages  $3 text[]: words  $4 text[]: exact tokens, with U+001F between  $5 text[]: other spellings
-- $6 text: name of the text search configuration  $7 integer: version of the analyzer
update passages p
set terms = counted.terms, words_version = $7::smallint,
    tsv = n.tsv || strip(to_tsvector($6::text::regconfig, n.spellings))
                || array_to_tsvector(string_to_array(n.exact, U&'\001F') || ('@' || left(md5($1), 12)))
from (select u.passage_id, u.exact, u.spellings, to_tsvector($6::text::regconfig, u.words) as tsv
      from unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) as u (passage_id, words, exact, spellings)
      offset 0) n
cross join lateral (select coalesce(sum(cardinality(w.positions)), 0) as terms from unnest(n.tsv) w) counted
where p.tenant_id = $1 and p.passage_id = n.passage_id;
