-- name: read_chunks
-- The rows of documents, each document's in order. $1 text: tenant  $2 bigint[]: documents' numbers
select doc_id, position, passage_id, gap, length, heading from chunks where tenant_id = $1 and doc_id = any($2) order by doc_id, position;

-- name: change_chunks
-- Take rows out, then put rows in, and correct the place of others. $1 text: tenant  $2 bigint[], $3 bigint[]: documents' numbers and positions of rows that go
-- $4 bigint[]: documents' numbers  $5 bigint[]: positions  $6 bigint[]: passages; null: the row is there, and its place alone changes  $7 integer[]: gaps
-- $8 integer[]: lengths  $9 integer[]: of each the place of its heading path in the list, from 1  $10 jsonb: heading paths, a list of lists
with gone as (
    delete from chunks c using unnest($2::bigint[], $3::bigint[]) as n (doc_id, position)
    where c.tenant_id = $1 and c.doc_id = n.doc_id and c.position = n.position
    returning c.doc_id
), paths as materialized (
    select p.place, array(select jsonb_array_elements_text(p.path)) as path from jsonb_array_elements($10::jsonb) with ordinality as p (path, place)
), changed as materialized (
    select n.*, p.path
    from unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::integer[], $8::integer[], $9::integer[]) as n (doc_id, position, passage_id, gap, length, place)
    join paths p on p.place = n.place
), moved as (
    update chunks c set gap = n.gap, length = n.length, heading = n.path
    from changed n where n.passage_id is null and c.tenant_id = $1 and c.doc_id = n.doc_id and c.position = n.position
)
insert into chunks (tenant_id, doc_id, position, passage_id, gap, length, heading)
select $1, n.doc_id, n.position, n.passage_id, n.gap, n.length, n.path
from changed n
where n.passage_id is not null and (select count(*) from gone) >= 0; -- a position may be that of a row that goes, so these go first
