-- name: read_chunks
-- The rows of a document, in order. $1 text: tenant  $2 bigint: document's number
select position, passage_id, gap, length, heading from chunks where tenant_id = $1 and doc_id = $2 order by position;

-- name: delete_chunks
-- $1 text: tenant  $2 bigint: document's number  $3 bigint[]: positions
delete from chunks where tenant_id = $1 and doc_id = $2 and position = any($3);

-- name: insert_chunks
-- $1 text: tenant  $2 bigint: document's number  $3 bigint[]: positions  $4 bigint[]: passages  $5 integer[]: gaps  $6 integer[]: lengths
-- $7 jsonb: heading paths, a list of lists
insert into chunks (tenant_id, doc_id, position, passage_id, gap, length, heading)
select $1, $2, n.position, n.passage_id, n.gap, n.length, array(select jsonb_array_elements_text($7::jsonb -> (n.ordinal - 1)::integer))
from unnest($3::bigint[], $4::bigint[], $5::integer[], $6::integer[]) with ordinality as n (position, passage_id, gap, length, ordinal);

-- name: update_chunks
-- Place alone changed. $1 text: tenant  $2 bigint: document's number  $3 bigint[]: positions  $4 integer[]: gaps  $5 integer[]: lengths
-- $6 jsonb: heading paths, a list of lists
update chunks c
set gap = n.gap, length = n.length, heading = array(select jsonb_array_elements_text($6::jsonb -> (n.ordinal - 1)::integer))
from unnest($3::bigint[], $4::integer[], $5::integer[]) with ordinality as n (position, gap, length, ordinal)
where c.tenant_id = $1 and c.doc_id = $2 and c.position = n.position;
