-- name: read_chunks
-- The rows of documents, each document's in order. $1 text: tenant  $2 bigint[]: documents' numbers
select doc_id, position, passage_id, gap, length, heading from chunks where tenant_id = $1 and doc_id = any($2) order by doc_id, position;

-- name: delete_chunks
-- $1 text: tenant  $2 bigint[]: documents' numbers  $3 bigint[]: positions
delete from chunks c using unnest($2::bigint[], $3::bigint[]) as n (doc_id, position)
where c.tenant_id = $1 and c.doc_id = n.doc_id and c.position = n.position;

-- name: insert_chunks
-- $1 text: tenant  $2 bigint[]: documents' numbers  $3 bigint[]: positions  $4 bigint[]: passages  $5 integer[]: gaps  $6 integer[]: lengths
-- $7 integer[]: of each the place of its heading path in the list, from 1  $8 jsonb: heading paths, a list of lists
with paths as materialized (
    select p.place, array(select jsonb_array_elements_text(p.path)) as path from jsonb_array_elements($8::jsonb) with ordinality as p (path, place)
)
insert into chunks (tenant_id, doc_id, position, passage_id, gap, length, heading)
select $1, n.doc_id, n.position, n.passage_id, n.gap, n.length, p.path
from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::integer[], $7::integer[]) as n (doc_id, position, passage_id, gap, length, place)
join paths p on p.place = n.place;

-- name: update_chunks
-- Place alone changed. $1 text: tenant  $2 bigint[]: documents' numbers  $3 bigint[]: positions  $4 integer[]: gaps  $5 integer[]: lengths
-- $6 integer[]: of each the place of its heading path in the list, from 1  $7 jsonb: heading paths, a list of lists
with paths as materialized (
    select p.place, array(select jsonb_array_elements_text(p.path)) as path from jsonb_array_elements($7::jsonb) with ordinality as p (path, place)
)
update chunks c
set gap = n.gap, length = n.length, heading = p.path
from unnest($2::bigint[], $3::bigint[], $4::integer[], $5::integer[], $6::integer[]) as n (doc_id, position, gap, length, place)
join paths p on p.place = n.place
where c.tenant_id = $1 and c.doc_id = n.doc_id and c.position = n.position;
