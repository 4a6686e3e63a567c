-- name: add_tenant
-- $1 text: tenant
insert into tenants (tenant_id) values ($1) on conflict do nothing;

-- name: accept_document
-- Note that a newer version is under way. No row comes back when the stored state or another accepted version is newer, or is this very one and ended.
-- $1 text: tenant  $2 text: document  $3 bigint: version  $4 bytea: digest  $5 text: collection  $6 text: source  $7 text: title
-- $8 text: uri  $9 text: MIME type  $10 jsonb: metadata  $11 timestamptz: changed at  $12 timestamptz: accepted at
with tenant as (insert into tenants (tenant_id) values ($1) on conflict do nothing)
insert into documents as d (tenant_id, document_id, pending_version, pending_digest, collection, source, title, uri, mime_type, metadata, changed_at, accepted_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
on conflict (tenant_id, document_id) do update
set pending_version = excluded.pending_version, pending_digest = excluded.pending_digest, accepted_at = excluded.accepted_at,
    source = case when d.state is null then excluded.source else d.source end
where (d.version is null or (d.version, d.digest) < ($3, $4))
  and (d.pending_version is null or (d.pending_version, d.pending_digest) <= ($3, $4))
returning doc_id;

-- name: fence_document
-- Make a version the visible one, unless what is stored is as new. Locks the row; no row comes back when it lost.
-- $1 text: tenant  $2 text: document  $3 bigint: version  $4 bytea: digest  $5 text: state  $6 text: collection  $7 text: source  $8 text: title
-- $9 text: uri  $10 text: MIME type  $11 jsonb: metadata  $12 timestamptz: changed at  $13 text: cut  $14 bigint: generation
-- $15 integer: chunks  $16 text: error
update documents
set version = $3, digest = $4, state = $5, collection = $6, source = $7, title = $8, uri = $9, mime_type = $10, metadata = $11,
    changed_at = $12, cut = $13, generation_id = $14, chunk_count = $15, error = $16, synced_at = now(),
    pending_version = case when (pending_version, pending_digest) > ($3, $4) then pending_version end,
    pending_digest = case when (pending_version, pending_digest) > ($3, $4) then pending_digest end,
    dead_version = case when dead_version > $3 then dead_version end,
    dead_error = case when dead_version > $3 then dead_error end
where tenant_id = $1 and document_id = $2 and (version is null or (version, digest) < ($3, $4))
returning doc_id;

-- name: fence_keeping_chunks
-- As `fence_document`, for a document that could not be read: what is visible stays as it is.
-- $1 text: tenant  $2 text: document  $3 bigint: version  $4 bytea: digest  $5 text: state  $6 text: error
update documents
set version = $3, digest = $4, state = $5, error = $6, synced_at = now(),
    pending_version = case when (pending_version, pending_digest) > ($3, $4) then pending_version end,
    pending_digest = case when (pending_version, pending_digest) > ($3, $4) then pending_digest end,
    dead_version = case when dead_version > $3 then dead_version end,
    dead_error = case when dead_version > $3 then dead_error end
where tenant_id = $1 and document_id = $2 and (version is null or (version, digest) < ($3, $4))
returning doc_id;

-- name: document_fence
-- $1 text: tenant  $2 text: document
select version, digest, pending_version, pending_digest from documents where tenant_id = $1 and document_id = $2;

-- name: mark_dead
-- $1 text: tenant  $2 text: document  $3 bigint: version  $4 text: error  $5 text: source, where the row is new
insert into documents as d (tenant_id, document_id, dead_version, dead_error, source) values ($1, $2, $3, $4, $5)
on conflict (tenant_id, document_id) do update
set dead_version = $3, dead_error = $4,
    pending_version = case when d.pending_version > $3 then d.pending_version end,
    pending_digest = case when d.pending_version > $3 then d.pending_digest end
where (d.version is null or d.version < $3) and (d.dead_version is null or d.dead_version <= $3);

-- name: unmark_dead
-- After a letter was replayed or dropped; not while another letter of the same version is there, such as that of the replay itself.
-- $1 text: tenant  $2 text: document  $3 bigint: version
update documents set dead_version = null, dead_error = null
where tenant_id = $1 and document_id = $2 and dead_version = $3
  and not exists (select from dead_letters l where l.tenant_id = $1 and l.document_id = $2 and l.version = $3);

-- name: forget_unsynced
-- A document of which nothing was ever synced and nothing is under way, once its last dead letter was dropped.
-- $1 text: tenant  $2 text: document
delete from documents where tenant_id = $1 and document_id = $2 and state is null and pending_version is null and dead_version is null;

-- name: notify_ended
-- Wake whoever waits for this document. $1 text: channel payload, a hash of tenant and document
select pg_notify('livedex_ended', $1);

-- name: end_sync
-- A version is visible: let go of what was kept until then, and wake whoever waits. Content of an equal version stays: another event may name it.
-- $1 text: tenant  $2 text: document  $3 bigint: version  $4 bytea: digest  $5 text: collection  $6 text: channel payload, as in `notify_ended`
with manifest as (delete from manifests where tenant_id = $1 and document_id = $2 and (version, digest) <= ($3, $4)),
     blob as (delete from blobs where tenant_id = $1 and document_id = $2 and version < $3),
     collection as (insert into collections (tenant_id, name) values ($1, $5) on conflict do nothing)
select pg_notify('livedex_ended', $6);

-- name: clear_tombstones
-- $1 text: tenant  $2 double precision: days that a tombstone is kept
delete from documents where tenant_id = $1 and state = 'deleted' and pending_version is null and dead_version is null and synced_at < now() - make_interval(secs => $2 * 86400.0);

-- name: clear_blobs
-- Content of versions that have ended, once no late event can name it any more. $1 text: tenant  $2 double precision: hours that it is kept
delete from blobs b using documents d
where b.tenant_id = $1 and d.tenant_id = $1 and d.document_id = b.document_id and b.version <= d.version and d.pending_version is null
  and b.created_at < now() - make_interval(secs => $2 * 3600.0);

-- name: document_states
-- How many documents are in which state, as the interface has it.
-- $1 text: tenant
select case when dead_version is not null and (version is null or dead_version > version) then 'dead'
            when coalesce(state, 'deleted') = 'deleted' then 'pending' else state end as state, count(*)
from documents
where tenant_id = $1
  and ((dead_version is not null and (version is null or dead_version > version)) or coalesce(state, 'deleted') <> 'deleted'
       or (pending_version is not null and get_byte(pending_digest, 0) = 0))
group by 1;

-- name: pending_since
-- Documents under way that were accepted at or before a moment. $1 text: tenant  $2 timestamptz: the moment
select count(*) from documents where tenant_id = $1 and pending_version is not null and accepted_at <= $2;
