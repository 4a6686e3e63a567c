-- name: lock_issued_versions
-- The newest version of documents that was given or is known, -1 where there is none; their rows are locked, in the order of their ids.
-- $1 text: tenant  $2 text[]: documents, each once
insert into issued_versions as i (tenant_id, document_id, version)
select $1, n.document_id, coalesce(greatest(d.version, d.pending_version, d.dead_version), -1)
from unnest($2::text[]) as n (document_id)
left join documents d on d.tenant_id = $1 and d.document_id = n.document_id
order by n.document_id
on conflict (tenant_id, document_id) do update set version = greatest(i.version, excluded.version), issued_at = now()
returning document_id, version;

-- name: read_deliveries
-- $1 text: tenant  $2 bytea[]: keys
select key, version from deliveries where tenant_id = $1 and key = any($2::bytea[]);

-- name: keep_issued_versions
-- $1 text: tenant  $2 text[]: documents, each once, locked  $3 bigint[]: their newest versions
update issued_versions i set version = n.version
from unnest($2::text[], $3::bigint[]) as n (document_id, version)
where i.tenant_id = $1 and i.document_id = n.document_id and i.version < n.version;

-- name: keep_deliveries
-- $1 text: tenant  $2 bytea[]: keys  $3 bigint[]: versions
insert into deliveries (tenant_id, key, version) select $1, n.* from unnest($2::bytea[], $3::bigint[]) as n (key, version)
on conflict do nothing;

-- name: clear_issued_versions
-- Versions that the document itself knows by now, or that nothing came of. $1 text: tenant  $2 double precision: days after which nothing comes of one
delete from issued_versions i
where i.tenant_id = $1 and i.issued_at < now() - interval '1 hour'
  and (i.issued_at < now() - make_interval(secs => $2 * 86400.0)
       or exists (select from documents d where d.tenant_id = $1 and d.document_id = i.document_id
                  and greatest(d.version, d.pending_version, d.dead_version) >= i.version));

-- name: clear_deliveries
-- $1 text: tenant  $2 double precision: days that a delivery is remembered
delete from deliveries where tenant_id = $1 and received_at < now() - make_interval(secs => $2 * 86400.0);

-- name: keep_accepted_versions
-- The broker holds the events of these. $1 text: tenant  $2 text[]: documents, each once  $3 bigint[]: their newest versions
update issued_versions i set accepted_version = n.version
from (select * from unnest($2::text[], $3::bigint[]) as n (document_id, version) order by document_id) n
where i.tenant_id = $1 and i.document_id = n.document_id and i.accepted_version < n.version;

-- name: patch_base
-- What a patch of a document, whose row here is locked, would build on: the newest version whose event is held, and whether the newest that is known
-- is a delete. $1 text: tenant  $2 text: document
select i.accepted_version, greatest(case when d.state = 'deleted' then d.version end, d.hidden_version,
                                    case when get_byte(d.pending_digest, 0) = 1 then d.pending_version end) as deleted_version
from issued_versions i left join documents d on d.tenant_id = $1 and d.document_id = $2
where i.tenant_id = $1 and i.document_id = $2;
