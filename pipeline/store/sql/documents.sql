-- name: add_tenant
-- $1 text: tenant
insert into tenants (tenant_id) values ($1) on conflict do nothing;

-- name: newest_before
-- The newest version that is known of a document, where the document changed last at or before a moment.
-- $1 text: tenant  $2 text: document  $3 timestamptz: moment
select greatest(version, pending_version, dead_version) from documents
where tenant_id = $1 and document_id = $2 and accepted_at <= $3 and (state is distinct from 'deleted' or pending_version is not null);

-- name: accept_documents
-- Note that newer versions are under way. A document does not come back when the stored state or another accepted version is newer, or is this very
-- one and ended. Rows are locked in the order of their documents. $1 text: tenant  $2 text[]: documents, each once  $3 bigint[]: versions
-- $4 bytea[]: digests  $5 text[]: collections  $6 text[]: sources  $7 text[]: titles  $8 text[]: URIs  $9 text[]: MIME types
-- $10 jsonb[]: metadata  $11 timestamptz[]: changed at  $12 timestamptz[]: accepted at  $13 jsonb: rights, a list of lists and nulls
-- What comes after a delete by time counts as accepted after it, whatever the clocks say: the delete may be delivered again.
-- Rights that the new version has hold for the old one too, from now on; a delete says none, nor does a version older than one that died.
with tenant as (insert into tenants (tenant_id) values ($1) on conflict do nothing)
insert into documents as d (tenant_id, document_id, pending_version, pending_digest, collection, source, title, uri, mime_type, metadata, changed_at, accepted_at,
                            acl, next_acl)
select $1, n.document_id, n.version, n.digest, n.collection, n.source, n.title, n.uri, n.mime_type, n.metadata, n.changed_at, n.accepted_at, r.acl, r.acl
from unnest($2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::jsonb[], $11::timestamptz[], $12::timestamptz[])
     with ordinality as n (document_id, version, digest, collection, source, title, uri, mime_type, metadata, changed_at, accepted_at, place)
cross join lateral acl_of($13::jsonb -> (n.place::integer - 1)) as r (acl)
order by n.document_id
on conflict (tenant_id, document_id) do update
set pending_version = excluded.pending_version, pending_digest = excluded.pending_digest,
    accepted_at = greatest(excluded.accepted_at,
                           d.accepted_at + case when get_byte(excluded.pending_digest, 0) = 1 then interval '0' else interval '1 microsecond' end),
    source = case when d.state is null then excluded.source else d.source end,
    next_acl = case when get_byte(excluded.pending_digest, 0) = 1 or d.dead_version > excluded.pending_version then d.next_acl else excluded.next_acl end
where (d.version is null or (d.version, d.digest) < (excluded.pending_version, excluded.pending_digest))
  and (d.pending_version is null or (d.pending_version, d.pending_digest) <= (excluded.pending_version, excluded.pending_digest))
returning document_id;

-- name: lock_documents
-- In the order of their ids, so that two transactions with several documents never wait for each other in a circle.
-- $1 text: tenant  $2 text[]: documents
select document_id, version, digest, pending_version, pending_digest
from documents where tenant_id = $1 and document_id = any($2) order by document_id for no key update;

-- name: fence_documents
-- Make versions the visible ones, unless what is stored is as new; a document that lost does not come back. Its row is locked before.
-- $1 text: tenant  $2 text[]: documents, each once  $3 bigint[]: versions  $4 bytea[]: digests  $5 text[]: states  $6 text[]: collections
-- $7 text[]: sources  $8 text[]: titles  $9 text[]: URIs  $10 text[]: MIME types  $11 jsonb[]: metadata  $12 timestamptz[]: changed at
-- $13 text[]: cuts  $14 integer[]: chunks  $15 text[]: errors  $16 bigint: generation  $17 jsonb: rights, a list of lists and nulls; a deleted
-- document keeps those that it had
-- What comes back of a document as it was before is read under the lock on its row.
with before as materialized (
    select document_id, collection, source from documents where tenant_id = $1 and document_id = any($2) for no key update
)
update documents d
set version = n.version, digest = n.digest, state = n.state, collection = n.collection, source = n.source, title = n.title, uri = n.uri,
    mime_type = n.mime_type, metadata = n.metadata, changed_at = n.changed_at, cut = n.cut, generation_id = $16, chunk_count = n.chunks,
    error = n.error, synced_at = now(),
    pending_version = case when (d.pending_version, d.pending_digest) > (n.version, n.digest) then d.pending_version end,
    pending_digest = case when (d.pending_version, d.pending_digest) > (n.version, n.digest) then d.pending_digest end,
    dead_version = case when d.dead_version > n.version then d.dead_version end,
    dead_error = case when d.dead_version > n.version then d.dead_error end,
    acl = case when n.state = 'deleted' then d.acl else acl_of($17::jsonb -> (n.place::integer - 1)) end,
    next_acl = case when (d.pending_version, d.pending_digest) > (n.version, n.digest) or d.dead_version > n.version then d.next_acl end
from unnest($2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::jsonb[],
            $12::timestamptz[], $13::text[], $14::integer[], $15::text[]) with ordinality
     as n (document_id, version, digest, state, collection, source, title, uri, mime_type, metadata, changed_at, cut, chunks, error, place)
join before using (document_id)
where d.tenant_id = $1 and d.document_id = n.document_id and (d.version is null or (d.version, d.digest) < (n.version, n.digest))
returning d.document_id, d.doc_id, before.collection, before.source;

-- name: fence_keeping_chunks
-- As `fence_documents`, for documents that could not be read: what is visible stays as it is, for whom their source says now.
-- $1 text: tenant  $2 text[]: documents, each once  $3 bigint[]: versions  $4 bytea[]: digests  $5 text[]: states  $6 text[]: errors
-- $7 jsonb: rights, a list of lists and nulls
update documents d
set version = n.version, digest = n.digest, state = n.state, error = n.error, synced_at = now(),
    pending_version = case when (d.pending_version, d.pending_digest) > (n.version, n.digest) then d.pending_version end,
    pending_digest = case when (d.pending_version, d.pending_digest) > (n.version, n.digest) then d.pending_digest end,
    dead_version = case when d.dead_version > n.version then d.dead_version end,
    dead_error = case when d.dead_version > n.version then d.dead_error end,
    acl = acl_of($7::jsonb -> (n.place::integer - 1)),
    next_acl = case when (d.pending_version, d.pending_digest) > (n.version, n.digest) or d.dead_version > n.version then d.next_acl end
from unnest($2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::text[]) with ordinality as n (document_id, version, digest, state, error, place)
where d.tenant_id = $1 and d.document_id = n.document_id and (d.version is null or (d.version, d.digest) < (n.version, n.digest))
returning d.document_id, d.doc_id, d.collection, d.source;

-- name: document_fence
-- $1 text: tenant  $2 text: document
select version, digest, pending_version, pending_digest from documents where tenant_id = $1 and document_id = $2;

-- name: mark_dead
-- $1 text: tenant  $2 text: document  $3 bigint: version  $4 text: error  $5 text: source, where the row is new
-- $6 jsonb: rights that the version would have, a list; null where it says none  $7 boolean: whether these are known; a new row has none to read it otherwise
insert into documents as d (tenant_id, document_id, dead_version, dead_error, source, acl)
values ($1, $2, $3, $4, $5, case when $7::boolean then acl_of($6) else '{}' end)
on conflict (tenant_id, document_id) do update
set dead_version = $3, dead_error = $4,
    next_acl = case when d.pending_version > $3 then d.next_acl else coalesce(acl_of($6), d.next_acl) end,
    pending_version = case when d.pending_version > $3 then d.pending_version end,
    pending_digest = case when d.pending_version > $3 then d.pending_digest end
where (d.version is null or d.version < $3) and (d.dead_version is null or d.dead_version <= $3);

-- name: unmark_dead
-- After a letter was replayed or dropped; not while another letter of the same version is there, such as that of the replay itself.
-- $1 text: tenant  $2 text: document  $3 bigint: version
update documents set dead_version = null, dead_error = null
where tenant_id = $1 and document_id = $2 and dead_version = $3
  and not exists (select from dead_letters l where l.tenant_id = $1 and l.document_id = $2 and l.version = $3 and l.stage <> 'notify');

-- name: forget_unsynced
-- A document of which nothing was ever synced and nothing is under way, once its last dead letter was dropped.
-- $1 text: tenant  $2 text: document
delete from documents where tenant_id = $1 and document_id = $2 and state is null and pending_version is null and dead_version is null;

-- name: notify_ended
-- Wake whoever waits for this document. $1 text: channel payload, a hash of tenant and document
select pg_notify('livedex_ended', $1);

-- name: end_syncs
-- Versions are visible: let go of what was kept until then, wake whoever waits, and write what subscribers are to be told. Content of an equal version
-- stays: another event may name it. A subscriber to some collections is told of what is in one of them, enters or leaves it.
-- $1 text: tenant  $2 text[]: documents  $3 bigint[]: versions  $4 bytea[]: digests  $5 text[]: collections
-- $6 text[]: channel payloads, as in `notify_ended`  $7 text[]: kinds of notices  $8 jsonb[]: what else these say  $9 text[]: collections before
with ended as materialized (
    select n.*, gen_random_uuid() as event_id
    from unnest($2::text[], $3::bigint[], $4::bytea[], $5::text[], $7::text[], $8::jsonb[], $9::text[])
         as n (document_id, version, digest, collection, kind, data, had)
), manifest as (
    delete from manifests m using ended n
    where m.tenant_id = $1 and m.document_id = n.document_id and (m.version, m.digest) <= (n.version, n.digest)
), blob as (
    delete from blobs b using ended n where b.tenant_id = $1 and b.document_id = n.document_id and b.version < n.version
), collection as (
    insert into collections (tenant_id, name) select distinct $1, n.collection from ended n order by n.collection on conflict do nothing
), notice as (
    insert into notices (tenant_id, subscriber, event_id, kind, document_id, version, data)
    select $1, s.name, n.event_id, n.kind, n.document_id, n.version, n.data
    from ended n join subscribers s on s.tenant_id = $1 and s.configured and n.kind = any(s.events)
         and (s.collections = '{}' or n.data ->> 'collection' = any(s.collections) or n.had = any(s.collections))
    returning subscriber
)
select pg_notify('livedex_ended', k.key) from unnest($6::text[]) as k (key)
union all
select pg_notify('livedex_notices', n.subscriber) from (select distinct subscriber from notice) as n;

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
