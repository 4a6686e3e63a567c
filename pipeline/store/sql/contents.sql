-- name: ended_contents
-- Of contents in object storage, the places in these arrays of those that no event can name any more: those of versions that were overtaken, and
-- those of the visible version once no late event of an equal version can come.
-- $1 text: tenant  $2 bytea[]: SHA-256 of each one's document id  $3 bigint[]: its version  $4 boolean[]: whether it is too old for a late event
select c.place::integer as place
from unnest($2::bytea[], $3::bigint[], $4::boolean[]) with ordinality as c (document, version, old, place)
join documents d on sha256(convert_to(d.document_id, 'UTF8')) = c.document
where d.tenant_id = $1 and (c.version < d.version or (c.version = d.version and d.pending_version is null and c.old))
  and not exists (select from dead_letters l where l.tenant_id = $1 and l.document_id = d.document_id and l.version = c.version);
