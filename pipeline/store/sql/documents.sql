-- name: add_tenant
-- $1 text: tenant
insert into tenants (tenant_id) values ($1) on conflict do nothing;

-- name: clear_before
-- A delete without a version: what arrived before it never becomes visible, whatever is known of the document. The newest version that is known, where
-- that arrived before. $1 text: tenant  $2 text: document  $3 timestamptz: when the delete arrived  $4 bigint[]: its partition and offset, or null
with tenant as (insert into tenants (tenant_id) values ($1) on conflict do nothing), cleared as (
    insert into documents as d (tenant_id, document_id, cleared_at, cleared_place) values ($1, $2, $3, $4)
    on conflict (tenant_id, document_id) do update
    set cleared_at = case when arrived_before($3, $4, d.cleared_at, d.cleared_place) then d.cleared_at else $3 end,
        cleared_place = case when arrived_before($3, $4, d.cleared_at, d.cleared_place) then d.cleared_place else $4 end
    returning version, pending_version, dead_version, state, arrived_at, arrived_place, accepted_at
)
select greatest(version, pending_version, dead_version) as newest from cleared
where arrived_before(coalesce(arrived_at, accepted_at), arrived_place, $3, $4) and (state is distinct from 'deleted' or pending_version is not null)
  and greatest(version, pending_version, dead_version) is not null;

-- name: guard_documents
-- Before changes are processed: rights hold, and deleted documents are hidden, unless something newer is there. Rows are locked in the order of their
-- documents. $1 text: tenant  $2 text[]: documents, each once  $3 bigint[], $4 bytea[]: the newest versions that say rights, or null  $5 jsonb: these,
-- a list of lists and nulls  $6 bigint[], $7 bytea[]: the newest deletes, or null
with tenant as (insert into tenants (tenant_id) values ($1) on conflict do nothing)
insert into documents as d (tenant_id, document_id, next_version, next_digest, next_acl, hidden_version, hidden_digest)
select $1, n.document_id, n.version, n.digest, acl_of($5::jsonb -> (n.place::integer - 1)), n.gone, n.gone_digest
from unnest($2::text[], $3::bigint[], $4::bytea[], $6::bigint[], $7::bytea[]) with ordinality
     as n (document_id, version, digest, gone, gone_digest, place)
order by n.document_id
on conflict (tenant_id, document_id) do update
set (next_version, next_digest, next_acl) = (
        select case when ok then excluded.next_version else d.next_version end, case when ok then excluded.next_digest else d.next_digest end,
               case when ok then excluded.next_acl else d.next_acl end
        from (select excluded.next_version is not null
                     and coalesce((d.version, d.digest) < (excluded.next_version, excluded.next_digest), true)
                     and coalesce((coalesce(d.next_version, d.pending_version), coalesce(d.next_digest, d.pending_digest))
                                  < (excluded.next_version, excluded.next_digest), true) as ok) newer),
    (hidden_version, hidden_digest) = (
        select case when ok then excluded.hidden_version else d.hidden_version end, case when ok then excluded.hidden_digest else d.hidden_digest end
        from (select excluded.hidden_version is not null
                     and coalesce((d.version, d.digest) < (excluded.hidden_version, excluded.hidden_digest), true)
                     and coalesce((d.hidden_version, d.hidden_digest) < (excluded.hidden_version, excluded.hidden_digest), true) as ok) newer)
;

-- name: accept_documents
-- Note that newer versions are under way. A document does not come back when the stored state or another accepted version is newer, or is this very
-- one and ended, or when it arrived before a delete without a version. Rows are locked in the order of their documents. $1 text: tenant
-- $2 text[]: documents, each once  $3 bigint[]: versions  $4 bytea[]: digests  $5 text[]: collections  $6 text[]: sources  $7 text[]: titles
-- $8 text[]: URIs  $9 text[]: MIME types  $10 jsonb[]: metadata  $11 timestamptz[]: changed at  $12 timestamptz[]: accepted at
-- $13 jsonb: rights, a list of lists and nulls  $14 timestamptz[]: arrived at  $15 bigint[], $16 bigint[]: partitions and offsets, or null
-- Rights that the new version has hold for the old one too, from now on; a delete says none and hides, and a version older than one that died, or than
-- the one whose rights hold, says nothing. What was never visible is shown as its newest version has it.
with tenant as (insert into tenants (tenant_id) values ($1) on conflict do nothing)
insert into documents as d (tenant_id, document_id, pending_version, pending_digest, collection, source, title, uri, mime_type, metadata, changed_at, accepted_at,
                            acl, next_acl, next_version, next_digest, arrived_at, arrived_place)
select $1, n.document_id, n.version, n.digest, n.collection, n.source, n.title, n.uri, n.mime_type, n.metadata, n.changed_at, n.accepted_at, r.acl, r.acl,
       case when get_byte(n.digest, 0) = 0 then n.version end, case when get_byte(n.digest, 0) = 0 then n.digest end, n.arrived_at,
       case when n.part is not null then array[n.part, n.at_offset] end
from unnest($2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::jsonb[], $11::timestamptz[], $12::timestamptz[],
            $14::timestamptz[], $15::bigint[], $16::bigint[])
     with ordinality as n (document_id, version, digest, collection, source, title, uri, mime_type, metadata, changed_at, accepted_at, arrived_at, part, at_offset, place)
cross join lateral acl_of($13::jsonb -> (n.place::integer - 1)) as r (acl)
order by n.document_id
on conflict (tenant_id, document_id) do update
set pending_version = excluded.pending_version, pending_digest = excluded.pending_digest,
    accepted_at = greatest(excluded.accepted_at,
                           d.accepted_at + case when get_byte(excluded.pending_digest, 0) = 1 then interval '0' else interval '1 microsecond' end),
    arrived_at = excluded.arrived_at, arrived_place = excluded.arrived_place,
    (collection, source, title, uri, mime_type, metadata, changed_at, acl) = (
        select case when new then excluded.collection else d.collection end, case when new then excluded.source else d.source end,
               case when new then excluded.title else d.title end, case when new then excluded.uri else d.uri end,
               case when new then excluded.mime_type else d.mime_type end, case when new then excluded.metadata else d.metadata end,
               case when new then excluded.changed_at else d.changed_at end, case when new then excluded.acl else d.acl end
        from (select d.state is null and get_byte(excluded.pending_digest, 0) = 0 as new) never_visible),
    (next_acl, next_version, next_digest) = (
        select case when keeps then d.next_acl else excluded.next_acl end, case when keeps then d.next_version else excluded.next_version end,
               case when keeps then d.next_digest else excluded.next_digest end
        from (select get_byte(excluded.pending_digest, 0) = 1 or coalesce(d.dead_version > excluded.pending_version, false)
                     or coalesce((d.next_version, d.next_digest) > (excluded.pending_version, excluded.pending_digest), false) as keeps) older),
    (hidden_version, hidden_digest) = (
        select case when hides then excluded.pending_version else d.hidden_version end, case when hides then excluded.pending_digest else d.hidden_digest end
        from (select get_byte(excluded.pending_digest, 0) = 1
                     and coalesce((d.hidden_version, d.hidden_digest) < (excluded.pending_version, excluded.pending_digest), true) as hides) deleted)
where (d.version is null or (d.version, d.digest) < (excluded.pending_version, excluded.pending_digest))
  and (d.pending_version is null or (d.pending_version, d.pending_digest) <= (excluded.pending_version, excluded.pending_digest))
  and (get_byte(excluded.pending_digest, 0) = 1 or not arrived_before(excluded.arrived_at, excluded.arrived_place, d.cleared_at, d.cleared_place))
returning document_id;

-- name: lock_for_patch
-- $1 text: tenant  $2 text: document
select doc_id, version, digest, state, pending_version, pending_digest, dead_version, collection, source, title, uri, mime_type, metadata, changed_at, cut,
       error, acl
from documents where tenant_id = $1 and document_id = $2 for no key update;

-- name: note_work
-- $1 text: tenant  $2 bigint[]: documents' numbers  $3 jsonb[]: what their visible versions took  $4 numeric[]: US dollars, null where not known
update documents d set work = n.work, work_cost = n.cost from unnest($2::bigint[], $3::jsonb[], $4::numeric[]) as n (doc_id, work, cost)
where d.tenant_id = $1 and d.doc_id = n.doc_id;

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
-- document keeps those that it had  $18 text: settings that the fields are indexed with
-- What comes back of a document as it was before is read under the lock on its row.
with before as materialized (
    select document_id, collection, source, title, fields_version, fields_cut = $18 and fields_version = version and chunk_count > 0 as has_fields
    from documents where tenant_id = $1 and document_id = any($2) for no key update
)
update documents d
set version = n.version, fields_cut = $18, fields_version = n.version, digest = n.digest, state = n.state, collection = n.collection, source = n.source, title = n.title, uri = n.uri,
    mime_type = n.mime_type, metadata = n.metadata, changed_at = n.changed_at, cut = n.cut, generation_id = $16, chunk_count = n.chunks,
    error = n.error, synced_at = now(), work = null,
    pending_version = case when (d.pending_version, d.pending_digest) > (n.version, n.digest) then d.pending_version end,
    pending_digest = case when (d.pending_version, d.pending_digest) > (n.version, n.digest) then d.pending_digest end,
    dead_version = case when d.dead_version > n.version then d.dead_version end,
    dead_error = case when d.dead_version > n.version then d.dead_error end,
    acl = case when n.state = 'deleted' then d.acl else acl_of($17::jsonb -> (n.place::integer - 1)) end,
    (next_acl, next_version, next_digest) = (
        select case when holds then d.next_acl end, case when holds then d.next_version end, case when holds then d.next_digest end
        from (select coalesce((d.next_version, d.next_digest) > (n.version, n.digest),
                              (d.pending_version, d.pending_digest) > (n.version, n.digest) or d.dead_version > n.version) as holds) newer),
    (hidden_version, hidden_digest) = (
        select case when holds then d.hidden_version end, case when holds then d.hidden_digest end
        from (select (d.hidden_version, d.hidden_digest) > (n.version, n.digest) as holds) newer)
from unnest($2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::jsonb[],
            $12::timestamptz[], $13::text[], $14::integer[], $15::text[]) with ordinality
     as n (document_id, version, digest, state, collection, source, title, uri, mime_type, metadata, changed_at, cut, chunks, error, place)
join before using (document_id)
where d.tenant_id = $1 and d.document_id = n.document_id and (d.version is null or (d.version, d.digest) < (n.version, n.digest))
returning d.document_id, d.doc_id, before.collection, before.source,
          before.fields_version is null as lacks_fields, before.has_fields and before.title is not distinct from n.title as has_fields;

-- name: fence_keeping_chunks
-- As `fence_documents`, for documents that could not be read: what is visible stays as it is, for whom their source says now;
-- and what was hidden stays hidden.
-- $1 text: tenant  $2 text[]: documents, each once  $3 bigint[]: versions  $4 bytea[]: digests  $5 text[]: states  $6 text[]: errors
-- $7 jsonb: rights, a list of lists and nulls
update documents d
set version = n.version, fields_version = case when d.fields_version = d.version then n.version end, digest = n.digest, state = n.state, error = n.error, synced_at = now(), work = null,
    pending_version = case when (d.pending_version, d.pending_digest) > (n.version, n.digest) then d.pending_version end,
    pending_digest = case when (d.pending_version, d.pending_digest) > (n.version, n.digest) then d.pending_digest end,
    dead_version = case when d.dead_version > n.version then d.dead_version end,
    dead_error = case when d.dead_version > n.version then d.dead_error end,
    acl = acl_of($7::jsonb -> (n.place::integer - 1)),
    (next_acl, next_version, next_digest) = (
        select case when holds then d.next_acl end, case when holds then d.next_version end, case when holds then d.next_digest end
        from (select coalesce((d.next_version, d.next_digest) > (n.version, n.digest),
                              (d.pending_version, d.pending_digest) > (n.version, n.digest) or d.dead_version > n.version) as holds) newer)
from unnest($2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::text[]) with ordinality as n (document_id, version, digest, state, error, place)
where d.tenant_id = $1 and d.document_id = n.document_id and (d.version is null or (d.version, d.digest) < (n.version, n.digest))
returning d.document_id, d.doc_id, d.collection, d.source;

-- name: document_fence
-- $1 text: tenant  $2 text: document
select version, digest, pending_version, pending_digest, cleared_at from documents where tenant_id = $1 and document_id = $2;

-- name: mark_dead
-- Not where the version arrived before a delete without a version.
-- $1 text: tenant  $2 text: document  $3 bigint: version  $4 text: error  $5 text: source, where the row is new
-- $6 jsonb: rights that the version would have, a list; null where it says none  $7 boolean: whether these are known; a new row has none to read it otherwise
-- $8 timestamptz, $9 bigint[]: when and where it arrived, null where nobody knows
insert into documents as d (tenant_id, document_id, dead_version, dead_error, source, acl)
values ($1, $2, $3, $4, $5, case when $7::boolean then acl_of($6) else '{}' end)
on conflict (tenant_id, document_id) do update
set dead_version = $3, dead_error = $4,
    (next_acl, next_version, next_digest, acl) = (
        select case when says then acl_of($6) else d.next_acl end, case when says then $3 else d.next_version end,
               case when not says or d.next_version = $3 then d.next_digest else '\x'::bytea end,
               case when d.state is null and d.pending_version is null and d.dead_version is null then excluded.acl else d.acl end
        from (select acl_of($6) is not null and not coalesce(d.pending_version > $3, false) and not coalesce(d.next_version > $3, false) as says) newest),
    pending_version = case when d.pending_version > $3 then d.pending_version end,
    pending_digest = case when d.pending_version > $3 then d.pending_digest end
where (d.version is null or d.version < $3) and (d.dead_version is null or d.dead_version <= $3)
  and not arrived_before($8, $9, d.cleared_at, d.cleared_place);

-- name: unmark_dead
-- After a letter was replayed or dropped; not while another letter of the same version is there, such as that of the replay itself.
-- $1 text: tenant  $2 text: document  $3 bigint: version
update documents set dead_version = null, dead_error = null
where tenant_id = $1 and document_id = $2 and dead_version = $3
  and not exists (select from dead_letters l where l.tenant_id = $1 and l.document_id = $2 and l.version = $3 and l.stage <> 'notify'
                  and l.replayed_at is null);

-- name: forget_unsynced
-- A document of which nothing was ever synced and nothing is under way, once its last dead letter was dropped.
-- $1 text: tenant  $2 text: document
delete from documents
where tenant_id = $1 and document_id = $2 and state is null and pending_version is null and dead_version is null and hidden_version is null
  and cleared_at is null;

-- name: notify_ended
-- Wake whoever waits for this document. $1 text: channel payload, a hash of tenant and document
select pg_notify('livedex_ended', $1);

-- name: end_syncs
-- Versions are visible: let go of what was kept until then, wake whoever waits, and write what subscribers are to be told. Content of an equal version
-- stays: another event may name it. A subscriber to some collections is told of what is in one of them, enters or leaves it.
-- $1 text: tenant  $2 text[]: documents  $3 bigint[]: versions  $4 bytea[]: digests  $5 text[]: collections
-- $6 text[]: channel payloads, as in `notify_ended`  $7 text[]: kinds of notices  $8 jsonb[]: what else these say  $9 text[]: collections before
-- $10 jsonb[]: what the versions took, null where there is nothing to tell
with ended as materialized (
    select n.*, gen_random_uuid() as event_id
    from unnest($2::text[], $3::bigint[], $4::bytea[], $5::text[], $7::text[], $8::jsonb[], $9::text[], $10::jsonb[])
         as n (document_id, version, digest, collection, kind, data, had, bill)
), manifest as (
    delete from manifests m using ended n
    where m.tenant_id = $1 and m.document_id = n.document_id and (m.version, m.digest) <= (n.version, n.digest)
), blob as (
    delete from blobs b using ended n where b.tenant_id = $1 and b.document_id = n.document_id and b.version < n.version
), collection as (
    insert into collections (tenant_id, name) select distinct $1, n.collection from ended n order by n.collection on conflict do nothing
), notice as (
    insert into notices (tenant_id, subscriber, event_id, kind, document_id, version, data, bill)
    select $1, s.name, n.event_id, n.kind, n.document_id, n.version, n.data, n.bill
    from ended n join subscribers s on s.tenant_id = $1 and s.configured and n.kind = any(s.events)
         and (s.collections = '{}' or n.data ->> 'collection' = any(s.collections) or n.had = any(s.collections))
    returning subscriber
)
select pg_notify('livedex_ended', k.key) from unnest($6::text[]) as k (key)
union all
select pg_notify('livedex_notices', n.subscriber) from (select distinct subscriber from notice) as n;

-- name: clear_tombstones
-- Also of documents that never were. $1 text: tenant  $2 double precision: days that a tombstone is kept
delete from documents
where tenant_id = $1 and (state is null or state = 'deleted') and pending_version is null and dead_version is null
  and greatest(synced_at, cleared_at, case when state is null then accepted_at end) < now() - make_interval(secs => $2 * 86400.0);

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
