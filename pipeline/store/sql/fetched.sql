-- name: is_ended
-- Whether a version is the visible one, or a newer one is known, or it arrived before a delete without a version. $1 text: tenant  $2 text: document
-- $3 bigint: version  $4 bytea: digest  $5 timestamptz, $6 bigint[]: when and where it arrived
select exists (
    select from documents d
    where d.tenant_id = $1 and d.document_id = $2
      and ((d.version, d.digest) >= ($3, $4) or (d.pending_version, d.pending_digest) > ($3, $4)
           or arrived_before($5, $6, d.cleared_at, d.cleared_place))
);

-- name: recall_fetched
-- What the content of the visible version is recognised by, where it was fetched on this basis. $1 text: tenant  $2 text: document  $3 bytea: basis
select f.place, f.etag, f.last_modified, f.made, f.outcome, f.error, f.own
from fetched_contents f
join documents d on d.tenant_id = $1 and d.document_id = f.document_id and d.version = f.version and d.digest = f.digest
where f.tenant_id = $1 and f.document_id = $2 and f.basis = $3;

-- name: remember_fetched
-- Not over what belongs to a newer version. $1 text: tenant  $2 text: document, which is there  $3 bigint: version  $4 bytea: digest  $5 bytea: basis
-- $6 bytea: place  $7 text: ETag  $8 text: last modified  $9 bytea: what was made of it  $10 text: outcome  $11 text: error  $12 jsonb: what it says of itself
insert into fetched_contents as f (tenant_id, document_id, version, digest, basis, place, etag, last_modified, made, outcome, error, own)
select $1, d.document_id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::jsonb from documents d where d.tenant_id = $1 and d.document_id = $2
on conflict (tenant_id, document_id) do update
set version = excluded.version, digest = excluded.digest, basis = excluded.basis, place = excluded.place, etag = excluded.etag,
    last_modified = excluded.last_modified, made = excluded.made, outcome = excluded.outcome, error = excluded.error, own = excluded.own,
    fetched_at = now()
where (f.version, f.digest) <= (excluded.version, excluded.digest);

-- name: visible_pieces
-- The visible chunks of a document with their texts, in order. $1 text: tenant  $2 text: document
select p.hash, p.content, c.gap, c.heading
from documents d
join chunks c on c.tenant_id = $1 and c.doc_id = d.doc_id
join passages p on p.tenant_id = $1 and p.passage_id = c.passage_id
where d.tenant_id = $1 and d.document_id = $2
order by c.position;
