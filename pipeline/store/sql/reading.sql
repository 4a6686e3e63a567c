-- What readers are shown. The state of a document here is the one of the interface: null where no document is to be seen. Principals are those on
-- whose behalf something is read, null for who reads everything; what these may not read, or was deleted though that is not carried out yet, is as if it
-- were not there.

-- name: read_document
-- $1 text: tenant  $2 text: document  $3 text[]: principals
select document_id, collection, source, title, uri, mime_type, metadata, version, pending_version, chunk_count, error, dead_error, changed_at,
       synced_at, acl, state as synced_state,
       case when dead_version > coalesce(version, -1) then 'dead'
            when coalesce(state, 'deleted') <> 'deleted' then state
            when get_byte(pending_digest, 0) = 0 then 'pending' end as state,
       exists (select from sources s where s.tenant_id = $1 and s.name = documents.source and s.left_at is not null) as orphaned
from documents where tenant_id = $1 and document_id = $2 and readable(acl, next_acl, $3) and hidden_version is null;

-- name: page_documents
-- In the order of their ids. $1 text: tenant  $2 text: only ids above this one, '' for all  $3 text: collection, null for all
-- $4 text: source, null for all  $5 text: state, null for all  $6 integer: rows at most  $7 text[]: principals
-- $8 text: what their ids begin with, '' for all
select seen.*, exists (select from sources s where s.tenant_id = $1 and s.name = seen.source and s.left_at is not null) as orphaned
from (
    select document_id, collection, source, title, uri, mime_type, metadata, version, pending_version, chunk_count, error, dead_error, changed_at,
           synced_at, acl, state as synced_state,
           case when dead_version > coalesce(version, -1) then 'dead'
                when coalesce(state, 'deleted') <> 'deleted' then state
                when get_byte(pending_digest, 0) = 0 then 'pending' end as state
    from documents
    where tenant_id = $1 and document_id > $2 and ($3::text is null or collection = $3) and ($4::text is null or source = $4)
      and starts_with(document_id, $8) and readable(acl, next_acl, $7) and hidden_version is null
) as seen
where state is not null and ($5::text is null or state = $5)
order by document_id limit $6;

-- name: read_document_chunks
-- A row for each visible chunk, in order; a document without chunks gives one row without content. One statement, so one version.
-- $1 text: tenant  $2 text: document  $3 text[]: principals
select d.version, d.state as synced_state,
       case when d.dead_version > coalesce(d.version, -1) then 'dead'
            when coalesce(d.state, 'deleted') <> 'deleted' then d.state
            when get_byte(d.pending_digest, 0) = 0 then 'pending' end as state,
       c.gap, c.length, c.heading, p.content
from documents d
left join (chunks c join passages p on p.tenant_id = c.tenant_id and p.passage_id = c.passage_id) on c.tenant_id = d.tenant_id and c.doc_id = d.doc_id
where d.tenant_id = $1 and d.document_id = $2 and readable(d.acl, d.next_acl, $3) and d.hidden_version is null
order by c.position;

-- name: read_collections
-- Collections by name, with the number of documents to be seen. $1 text: tenant  $2 text: name, null for all  $3 text[]: principals
with held as (
    select collection as name, count(*) as documents, min(accepted_at) as created_at
    from documents
    where tenant_id = $1 and ($2::text is null or collection = $2) and readable(acl, next_acl, $3) and hidden_version is null
      and (dead_version > coalesce(version, -1) or coalesce(state, 'deleted') <> 'deleted' or get_byte(pending_digest, 0) = 0)
    group by collection
), made as (
    select name, created_at from collections where tenant_id = $1 and ($2::text is null or name = $2)
)
select name, coalesce(held.documents, 0) as documents, coalesce(made.created_at, held.created_at) as created_at
from made full join held using (name)
order by name;

-- name: read_progress
-- $1 text: tenant  $2 text: document  $3 text[]: principals
select version, pending_version, dead_version, chunk_count, state, error, dead_error, work, work_cost,
       (select max(l.attempts) from dead_letters l
        where l.tenant_id = $1 and l.document_id = $2 and l.version = d.dead_version and l.stage <> 'notify') as attempts
from documents d where tenant_id = $1 and document_id = $2 and readable(acl, next_acl, $3);

-- name: collection_members
-- Documents of a collection that are there or on their way, in the order of their ids, with the newest version that is known of each.
-- $1 text: tenant  $2 text: collection  $3 text: only ids above this one, '' for all  $4 integer: rows at most
select document_id, greatest(version, pending_version, dead_version) as newest
from documents
where tenant_id = $1 and collection = $2 and document_id > $3 and hidden_version is null
  and (dead_version > coalesce(version, -1) or coalesce(state, 'deleted') <> 'deleted' or get_byte(pending_digest, 0) = 0)
order by document_id limit $4;

-- name: make_collection
-- No row where it is there already, by its own row or by a document in it. $1 text: tenant  $2 text: name
insert into collections (tenant_id, name)
select $1, $2
where not exists (select from documents
                  where tenant_id = $1 and collection = $2
                    and (dead_version > coalesce(version, -1) or coalesce(state, 'deleted') <> 'deleted' or get_byte(pending_digest, 0) = 0))
on conflict do nothing
returning name, 0::bigint as documents, created_at;

-- name: drop_collection
-- Its documents stay where they are. $1 text: tenant  $2 text: name
delete from collections where tenant_id = $1 and name = $2;
