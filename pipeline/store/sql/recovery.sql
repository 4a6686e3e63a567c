-- name: pending_with_manifest
-- Versions under way that only their next step is missing of. $1 text: tenant  $2 double precision: seconds since they were accepted, at least
-- $3 text: document to go on behind  $4 integer: at most
select d.document_id, d.pending_version as version, d.pending_digest as digest, d.accepted_at
from documents d join manifests m on m.tenant_id = d.tenant_id and m.document_id = d.document_id and m.version = d.pending_version and m.digest = d.pending_digest
where d.tenant_id = $1 and d.pending_version is not null and d.accepted_at < now() - make_interval(secs => $2) and d.document_id > $3
order by d.document_id limit $4;

-- name: published_and_unknown
-- Files whose last change was published and never arrived. $1 text: tenant  $2 double precision: seconds since it was published, at least
-- $3 text: document to go on behind  $4 integer: at most
select f.source, f.document_id, f.version, f.present
from source_files f left join documents d on d.tenant_id = f.tenant_id and d.document_id = f.document_id
where f.tenant_id = $1 and f.document_id > $3 and f.version < (extract(epoch from now()) - $2) * 1e9
  and coalesce(d.version, -1) < f.version and coalesce(d.dead_version, -1) < f.version
  and (f.present or d.state is distinct from 'deleted' and d.version is not null)
  and not exists (
      select from manifests m where m.tenant_id = f.tenant_id and m.document_id = f.document_id and m.version >= f.version
  )
order by f.document_id limit $4;
