-- name: keep_used
-- Passages that a new manifest shows are no longer unused; waits for a clearing that runs. $1 text: tenant  $2 bytea[]: hashes
delete from unused_passages u using passages p
where u.tenant_id = $1 and p.tenant_id = $1 and p.hash = any($2) and u.passage_id = p.passage_id;

-- name: insert_manifest
-- $1 text: tenant  $2 text: document  $3 bigint: version  $4 bytea: digest  $5 text: outcome  $6 boolean: keep  $7 text: cut  $8 text: error
-- $9 jsonb: attributes  $10 bigint[]: passages  $11 integer[]: gaps  $12 integer[]: lengths  $13 jsonb: headings  $14 timestamptz: accepted at
insert into manifests (tenant_id, document_id, version, digest, outcome, keep, cut, error, attributes, passage_ids, gaps, lengths, headings, accepted_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
on conflict (tenant_id, document_id, version, digest) do update
set passage_ids = excluded.passage_ids, gaps = excluded.gaps, lengths = excluded.lengths, headings = excluded.headings, cut = excluded.cut,
    outcome = excluded.outcome, keep = excluded.keep, error = excluded.error, attributes = excluded.attributes;

-- name: read_manifests
-- $1 text: tenant  $2 text[]: documents  $3 bigint[]: versions  $4 bytea[]: digests
select m.document_id, m.version, m.digest, m.outcome, m.keep, m.cut, m.error, m.attributes, m.passage_ids, m.gaps, m.lengths, m.headings, m.accepted_at,
       m.embedded_texts, m.embedded_tokens, m.estimated_tokens
from unnest($2::text[], $3::bigint[], $4::bytea[]) as n (document_id, version, digest)
join manifests m on m.tenant_id = $1 and m.document_id = n.document_id and m.version = n.version and m.digest = n.digest;

-- name: discard_manifests
-- Those up to a fence. $1 text: tenant  $2 text[]: documents  $3 bigint[]: versions  $4 bytea[]: digests
delete from manifests m using unnest($2::text[], $3::bigint[], $4::bytea[]) as n (document_id, version, digest)
where m.tenant_id = $1 and m.document_id = n.document_id and (m.version, m.digest) <= (n.version, n.digest);

-- name: missing_vectors
-- Passages of manifests that have no vector in the generation, each once a manifest. `place` is that of the manifest in the list, from 1: of those that are
-- the newest known of their documents and have not ended yet; one that lacks nothing has a row of nulls. Vectors are looked up one by one, however
-- many the planner takes there to be: a scan of all of them would cost more with every document.
-- $1 text: tenant  $2 text[]: documents  $3 bigint[]: versions  $4 bytea[]: digests
with asked as materialized (
    select n.*
    from unnest($2::text[], $3::bigint[], $4::bytea[]) with ordinality as n (document_id, version, digest, place)
    join documents d on d.tenant_id = $1 and d.document_id = n.document_id
    where (d.version is null or (d.version, d.digest) < (n.version, n.digest))
      and (d.pending_version is null or (d.pending_version, d.pending_digest) <= (n.version, n.digest))
), wanted as materialized (
    select distinct n.place, u.passage_id
    from asked n
    join manifests m on m.tenant_id = $1 and m.document_id = n.document_id and m.version = n.version and m.digest = n.digest
    cross join lateral unnest(m.passage_ids) as u (passage_id)
), lacking as materialized (
    select w.place, w.passage_id from wanted w
    where (select true from {vectors} v where v.tenant_id = $1 and v.passage_id = w.passage_id) is null
)
select n.place, p.passage_id, p.content
from asked n
left join (lacking l join passages p on p.tenant_id = $1 and p.passage_id = l.passage_id) on l.place = n.place
order by n.place, p.passage_id;

-- name: insert_vectors
-- Passages that were cleared away meanwhile are left out; they are looked up one by one, see above. $1 text: tenant  $2 bigint[]: passages, ascending  $3 halfvec[]: vectors of length 1
insert into {vectors} (tenant_id, passage_id, embedding)
select $1, n.passage_id, n.embedding
from unnest($2::bigint[], $3::halfvec[]) as n (passage_id, embedding)
where (select true from passages p where p.tenant_id = $1 and p.passage_id = n.passage_id)
on conflict do nothing;

-- name: ensure_generation
-- $1 text: model  $2 integer: dimensions
select ensure_generation($1, $2);

-- name: put_blob
-- $1 text: tenant  $2 text: document  $3 bigint: version  $4 bytea: SHA-256  $5 bytea: content
insert into blobs (tenant_id, document_id, version, sha256, content) values ($1, $2, $3, $4, $5) on conflict do nothing;

-- name: get_blob
-- $1 text: tenant  $2 text: document  $3 bigint: version  $4 bytea: SHA-256
select content from blobs where tenant_id = $1 and document_id = $2 and version = $3 and sha256 = $4;

-- name: discard_blobs
-- $1 text: tenant  $2 text: document  $3 bigint: up to this version
delete from blobs where tenant_id = $1 and document_id = $2 and version <= $3;

-- name: discard_all_blobs
-- $1 text: tenant
delete from blobs where tenant_id = $1;

-- name: find_generation
-- The newest generation of a model. $1 text: model  $2 integer: dimensions, or null for any
select generation_id, dimensions from generations where model_id = $1 and ($2::integer is null or dimensions = $2) order by generation_id desc limit 1;
