-- name: shown_documents
-- A page of a tenant's documents with what they show, in order: a row for each chunk, and one with null for a document without any. One statement,
-- so that no document is seen half in one version and half in another.
-- $1 text: tenant  $2 text: after this document  $3 integer: documents at most
with page as (select * from documents where tenant_id = $1 and document_id > $2 order by document_id limit $3)
select d.document_id, d.doc_id, d.state, d.version, d.source, d.collection, d.title, d.uri, d.mime_type, d.metadata, d.acl, d.chunk_count,
       d.pending_version is not null as under_way,
       d.pending_version is not null and get_byte(d.pending_digest, 0) = 0 as is_coming,
       d.dead_version is not null and (d.version is null or d.dead_version > d.version) as is_dead,
       c.position, c.passage_id, c.gap, c.length, c.heading, p.hash, p.content
from page d
left join chunks c on c.tenant_id = $1 and c.doc_id = d.doc_id
left join passages p on p.tenant_id = $1 and p.passage_id = c.passage_id
order by d.document_id, c.position;

-- name: faulty_words
-- Passages beside whose contents stands something else than `insert_passages` would write; without those of an older analyzer, which are rewritten.
-- $1 text: tenant  $2 bigint[]: passages  $3 text[]: words of their contents, see livedex.pipeline.store.keyword_analyzer
-- $4 text[]: exact tokens, with U+001F between  $5 text: name of the text search configuration  $6 text[]: other spellings  $7 integer: version
-- of the analyzer
select p.passage_id
from (select u.passage_id, u.exact, u.spellings, to_tsvector($5::text::regconfig, u.words) as tsv
      from unnest($2::bigint[], $3::text[], $4::text[], $6::text[]) as u (passage_id, words, exact, spellings)
      offset 0) n
cross join lateral (select coalesce(sum(cardinality(w.positions)), 0) as terms from unnest(n.tsv) w) counted
join passages p on p.tenant_id = $1 and p.passage_id = n.passage_id
where p.length is distinct from char_length(p.content)
   or (p.words_version >= $7::integer
       and (p.terms is distinct from counted.terms
            or p.tsv is distinct from n.tsv || strip(to_tsvector($5::text::regconfig, n.spellings))
                                            || array_to_tsvector(string_to_array(n.exact, U&'\001F') || ('@' || left(md5($1), 12)))));

-- name: restore_passages
-- Write passages as `insert_passages` would have, over what stands under their hashes.
-- $1 text: tenant  $2 bytea[]: hashes, ascending  $3 text[]: contents  $4 text[]: words  $5 text[]: exact tokens, with U+001F between
-- $6 text: name of the text search configuration  $7 text[]: other spellings  $8 integer: version of the analyzer
update passages p
set content = n.content, length = char_length(n.content), terms = counted.terms, words_version = $8::smallint,
    tsv = n.tsv || strip(to_tsvector($6::text::regconfig, n.spellings))
                || array_to_tsvector(string_to_array(n.exact, U&'\001F') || ('@' || left(md5($1), 12)))
from (select u.hash, u.content, u.exact, u.spellings, to_tsvector($6::text::regconfig, u.words) as tsv
      from unnest($2::bytea[], $3::text[], $4::text[], $5::text[], $7::text[]) as u (hash, content, words, exact, spellings)
      offset 0) n
cross join lateral (select coalesce(sum(cardinality(w.positions)), 0) as terms from unnest(n.tsv) w) counted
where p.tenant_id = $1 and p.hash = n.hash;

-- name: vector_shapes
-- Of the passages that have a vector: its length, which is 1, and its dimensions. $1 text: tenant  $2 bigint[]: passages
select passage_id, l2_norm(embedding) as norm, vector_dims(embedding) as dimensions from {vectors} where tenant_id = $1 and passage_id = any($2);

-- name: delete_vectors
-- $1 text: tenant  $2 bigint[]: passages
delete from {vectors} where tenant_id = $1 and passage_id = any($2);

-- name: passage_contents
-- $1 text: tenant  $2 bigint[]: passages
select passage_id, content from passages where tenant_id = $1 and passage_id = any($2) order by passage_id;

-- name: orphan_chunks
-- Chunks that no document of the tenant owns, by the number of the document they name. $1 text: tenant
select c.doc_id, count(*) as chunks
from chunks c
where c.tenant_id = $1 and not exists (select from documents d where d.tenant_id = $1 and d.doc_id = c.doc_id)
group by c.doc_id order by c.doc_id;

-- name: delete_orphan_chunks
-- $1 text: tenant
delete from chunks c where c.tenant_id = $1 and not exists (select from documents d where d.tenant_id = $1 and d.doc_id = c.doc_id);

-- name: forget_files
-- So that the next scan publishes them again. $1 text: tenant  $2 text: source  $3 text[]: documents
delete from source_files where tenant_id = $1 and source = $2 and document_id = any($3);

-- name: count_chunks_again
-- Where the count alone is wrong. $1 text: tenant  $2 text[]: documents
update documents d set chunk_count = (select count(*) from chunks c where c.tenant_id = $1 and c.doc_id = d.doc_id)
where d.tenant_id = $1 and d.document_id = any($2);

-- name: hashes_with_vector
-- Which of these passages need not be embedded. $1 text: tenant  $2 bytea[]: hashes
select p.hash from passages p join {vectors} v on v.tenant_id = $1 and v.passage_id = p.passage_id where p.tenant_id = $1 and p.hash = any($2);

-- name: files_under_way
-- Files whose newest version was published and is not yet in the index. `is_new`: nothing of the document is in it.
-- $1 text: tenant  $2 text: source
select f.path, f.document_id, coalesce(d.state, 'deleted') = 'deleted' as is_new
from source_files f
left join documents d on d.tenant_id = f.tenant_id and d.document_id = f.document_id
where f.tenant_id = $1 and f.source = $2 and f.present and coalesce(greatest(d.version, d.dead_version), -1) < f.version
order by f.path;
