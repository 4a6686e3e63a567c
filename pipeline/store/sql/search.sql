-- Principals are those on whose behalf is searched, null for who reads everything.

-- name: keyword_candidates
-- Passages that match, of documents that the reader of the transaction may read; `ranks`: `ts_rank` by each word alone, which says how often it
-- stands there, see livedex.pipeline.search.bm25. Where more
-- match than may come, those whose words weigh most for their length.
-- $1 tsquery: what a candidate must match  $2 tsquery[]: each word alone  $3 double precision[]: their weights
-- $4 double precision: mean length in BM25, > 0  $5 integer: passages at most
select passage_id, terms, ranks from keyword_candidates($1, $2, $3, $4, $5);

-- name: keyword_matches
-- The same from the documents that are asked for, each of whose passages is looked at. $1 to $5 as above  $6 text: tenant
-- $7 text[]: collections or null  $8 text[]: documents or null  $9 jsonpath: predicate or null  $10 jsonb: the values it names
-- $11 text[]: principals
select p.passage_id, p.terms, found.ranks
from passages p
cross join lateral (
    select array_agg(w.rank) as ranks, sum(w.rank * w.weight) as total
    from (select ts_rank(p.tsv, u.word) as rank, u.weight from unnest($2::tsquery[], $3::float8[]) as u (word, weight) offset 0) w) found
where p.tenant_id = $6 and p.tsv @@ $1
  and p.passage_id in (select c.passage_id from chunks c join documents d on d.tenant_id = $6 and d.doc_id = c.doc_id
                       where c.tenant_id = $6
                         and ($7::text[] is null or d.collection = any($7)) and ($8::text[] is null or d.document_id = any($8))
                         and ($9::jsonpath is null or jsonb_path_match(case when $10::jsonb ? '@document' then filter_subject(d.metadata, d.document_id, d.source, d.mime_type, d.changed_at, d.synced_at)
                                               else d.metadata end, $9, $10, true))
                         and readable(d.acl, d.next_acl, $11) and d.hidden_version is null)
order by found.total / ($4::float8 + p.terms) desc, p.passage_id
limit $5::integer;

-- name: visible_passages
-- Those that a document shows which is asked for. $1 text: tenant  $2 bigint[]: passages  $3 text[]: collections or null
-- $4 text[]: documents or null  $5 jsonpath: predicate or null  $6 jsonb: the values it names  $7 text[]: principals
select n.passage_id
from unnest($2::bigint[]) as n (passage_id)
where exists (select from chunks c
              where c.tenant_id = $1 and c.passage_id = n.passage_id
                and (($3::text[] is null and $4::text[] is null and $5::jsonpath is null and $7::text[] is null
                      and not exists (select from documents h where h.tenant_id = $1 and h.doc_id = c.doc_id and h.hidden_version is not null))
                     or exists (select from documents d
                                where d.tenant_id = $1 and d.doc_id = c.doc_id
                                  and ($3 is null or d.collection = any($3)) and ($4 is null or d.document_id = any($4))
                                  and ($5 is null or jsonb_path_match(case when $6::jsonb ? '@document' then filter_subject(d.metadata, d.document_id, d.source, d.mime_type, d.changed_at, d.synced_at)
                                               else d.metadata end, $5, $6, true))
                                  and readable(d.acl, d.next_acl, $7) and d.hidden_version is null)));

-- name: nearest_passages
-- For who reads everything, by an exact scan: no index serves this order. `visible`: a document shows it.
-- $1 text: tenant  $2 halfvec: query of length 1  $3 integer: passages
select n.passage_id, n.distance,
       exists (select from chunks c where c.tenant_id = $1 and c.passage_id = n.passage_id
               and not exists (select from documents h where h.tenant_id = $1 and h.doc_id = c.doc_id and h.hidden_version is not null)) as visible
from (select v.passage_id, (v.embedding <=> $2) + 0 as distance
      from {vectors} v
      where v.tenant_id = $1
      order by 2
      limit $3) n
order by n.distance;

-- name: nearest_matches
-- By an exact scan of what the documents that are asked for show; those as near as the last one come too.
-- $1 text: tenant  $2 halfvec: query of length 1  $3 integer: passages  $4 text[]: collections or null  $5 text[]: documents or null
-- $6 jsonpath: predicate or null  $7 jsonb: the values it names  $8 text[]: principals
select v.passage_id, (v.embedding <=> $2) + 0 as distance, true as visible
from {vectors} v
where v.tenant_id = $1
  and v.passage_id in (select c.passage_id from chunks c join documents d on d.tenant_id = $1 and d.doc_id = c.doc_id
                       where c.tenant_id = $1
                         and ($4::text[] is null or d.collection = any($4)) and ($5::text[] is null or d.document_id = any($5))
                         and ($6::jsonpath is null or jsonb_path_match(case when $7::jsonb ? '@document' then filter_subject(d.metadata, d.document_id, d.source, d.mime_type, d.changed_at, d.synced_at)
                                               else d.metadata end, $6, $7, true))
                         and readable(d.acl, d.next_acl, $8) and d.hidden_version is null)
order by 2
fetch first $3 rows with ties;

-- name: nearest_indexed
-- By the vector index, in steps until enough match; fewer come where it gave up. The predicate is a subquery of its own, so that it is
-- asked of one row after the other in the index's order. Parameters as above.
select v.passage_id, v.embedding <=> $2 as distance, true as visible
from {vectors} v
where v.tenant_id = $1
  and (select true from chunks c join documents d on d.tenant_id = $1 and d.doc_id = c.doc_id
       where c.tenant_id = $1 and c.passage_id = v.passage_id
         and ($4::text[] is null or d.collection = any($4)) and ($5::text[] is null or d.document_id = any($5))
         and ($6::jsonpath is null or jsonb_path_match(case when $7::jsonb ? '@document' then filter_subject(d.metadata, d.document_id, d.source, d.mime_type, d.changed_at, d.synced_at)
                                               else d.metadata end, $6, $7, true))
         and readable(d.acl, d.next_acl, $8) and d.hidden_version is null
       limit 1)
order by v.embedding <=> $2
limit $3;

-- name: tune_vector_index
-- For this transaction. $1 text: ef_search  $2 text: rows at most that a scan looks at
select set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', $1, true), set_config('hnsw.max_scan_tuples', $2, true);

-- name: distances
-- Of passages that are known. $1 text: tenant  $2 halfvec: query of length 1  $3 bigint[]: passages  $4 boolean: the vectors too
select v.passage_id, v.embedding <=> $2 as distance, case when $4 then v.embedding end as embedding
from {vectors} v where v.tenant_id = $1 and v.passage_id = any($3);

-- name: chunks_of_passages
-- Where passages stand, of each the first by document and place. $1 text: tenant  $2 bigint[]: passages  $3 integer: of each at most
-- $4 text[]: collections or null  $5 text[]: documents or null  $6 jsonpath: predicate or null  $7 jsonb: the values it names
-- $8 text[]: principals
select n.passage_id, f.document_id, f.doc_id, f.position, md5(array_to_string(f.heading, U&'\001F'))::uuid as section
from unnest($2::bigint[]) as n (passage_id)
cross join lateral (
    select d.document_id, c.doc_id, c.position, c.heading
    from chunks c join documents d on d.tenant_id = $1 and d.doc_id = c.doc_id
    where c.tenant_id = $1 and c.passage_id = n.passage_id
      and ($4::text[] is null or d.collection = any($4)) and ($5::text[] is null or d.document_id = any($5))
      and ($6::jsonpath is null or jsonb_path_match(case when $7::jsonb ? '@document' then filter_subject(d.metadata, d.document_id, d.source, d.mime_type, d.changed_at, d.synced_at)
                                               else d.metadata end, $6, $7, true))
      and readable(d.acl, d.next_acl, $8) and d.hidden_version is null
    order by d.document_id, c.position
    limit $3) f;

-- name: read_hits
-- In the order of the parameters. $1 text: tenant  $2 bigint[]: documents' numbers  $3 bigint[]: positions  $4 boolean: contents too
-- $5 boolean: metadata too  $6 text[]: principals
with wanted as (
    select w.doc_id, w.position, w.place from unnest($2::bigint[], $3::bigint[]) with ordinality as w (doc_id, position, place)
), places as (
    select c.doc_id, c.position, c.passage_id, c.heading, c.length,
           row_number() over in_order - 1 as chunk_index, sum(c.gap + c.length) over in_order as "end"
    from chunks c
    where c.tenant_id = $1 and c.doc_id = any($2)
    window in_order as (partition by c.doc_id order by c.position)
)
select w.place, d.document_id, p.chunk_index, p.heading, (p."end" - p.length)::bigint as start, p."end"::bigint as "end", p.passage_id,
       case when $4 then s.content end as content, d.title, d.uri, d.collection, case when $5 then d.metadata end as metadata,
       d.version, d.synced_at
from wanted w
join places p on p.doc_id = w.doc_id and p.position = w.position
join documents d on d.tenant_id = $1 and d.doc_id = w.doc_id and readable(d.acl, d.next_acl, $6) and d.hidden_version is null
join passages s on s.tenant_id = $1 and s.passage_id = p.passage_id
order by w.place;

-- name: found_documents
-- What facets and recency need of documents. $1 text: tenant  $2 bigint[]: documents' numbers  $3 text[]: principals
select d.doc_id, d.collection, d.source, d.mime_type, d.metadata, d.changed_at, d.synced_at
from documents d
where d.tenant_id = $1 and d.doc_id = any($2) and readable(d.acl, d.next_acl, $3) and d.hidden_version is null;

-- name: readable_names
-- Those of some documents that are visible. $1 text: tenant  $2 text[]: documents  $3 text[]: principals
select d.document_id, d.title, d.uri, d.collection
from documents d
where d.tenant_id = $1 and d.document_id = any($2) and readable(d.acl, d.next_acl, $3) and d.hidden_version is null and d.chunk_count > 0;

-- name: neighbouring_chunks
-- The chunks around some, of documents that may be read, in order. $1 text: tenant  $2 text[]: documents  $3 bigint[]: index of a chunk in each
-- $4 integer: chunks before and after it  $5 text[]: principals
with wanted as (
    select d.doc_id, d.document_id, w.chunk_index
    from unnest($2::text[], $3::bigint[]) as w (document_id, chunk_index)
    join documents d on d.tenant_id = $1 and d.document_id = w.document_id and readable(d.acl, d.next_acl, $5) and d.hidden_version is null
), places as (
    select c.doc_id, c.passage_id, c.length,
           row_number() over in_order - 1 as chunk_index, sum(c.gap + c.length) over in_order as "end"
    from chunks c
    where c.tenant_id = $1 and c.doc_id in (select w.doc_id from wanted w)
    window in_order as (partition by c.doc_id order by c.position)
)
select distinct w.document_id, p.chunk_index, s.content, (p."end" - p.length)::bigint as start, p."end"::bigint as "end"
from wanted w
join places p on p.doc_id = w.doc_id and p.chunk_index between w.chunk_index - $4::integer and w.chunk_index + $4::integer
join passages s on s.tenant_id = $1 and s.passage_id = p.passage_id
order by w.document_id, p.chunk_index;

-- name: contents_of
-- $1 text: tenant  $2 bigint[]: passages
select p.passage_id, p.content from passages p where p.tenant_id = $1 and p.passage_id = any($2);

-- name: any_phrase
-- A tsquery that one of some phrases meets, null where none has a word. $1 text: name of the text search configuration  $2 text[]: phrases
select string_agg('(' || q.phrase::text || ')', ' | ') from (
    select phraseto_tsquery($1::text::regconfig, u.words) as phrase from unnest($2::text[]) as u (words)) q
where numnode(q.phrase) > 0;

-- name: phrase_queries
-- For each number from 0, the tsquery that one of its phrases meets, null where none has a word. $1 text: name of the text search configuration
-- $2 text[]: phrases  $3 integer[]: their numbers  $4 integer: how many numbers
select array_agg(q.phrases order by n.number) from generate_series(0, $4::integer - 1) as n (number)
left join lateral (
    select string_agg('(' || p.phrase::text || ')', ' | ') as phrases
    from (select phraseto_tsquery($1::text::regconfig, u.words) as phrase
          from unnest($2::text[], $3::integer[]) as u (words, number) where u.number = n.number) p
    where numnode(p.phrase) > 0) q on true;

-- name: passages_with_terms
-- Contents, and whether they meet each of some tsqueries (null: no tsquery). $1 text: tenant  $2 bigint[]: passages  $3 text[]: tsqueries
-- $4 text: a tsquery that none may meet, or null
select p.passage_id, p.content,
       array(select p.tsv @@ u.term::tsquery from unnest($3::text[]) with ordinality as u (term, place) order by u.place) as held
from passages p where p.tenant_id = $1 and p.passage_id = any($2) and ($4::text is null or not p.tsv @@ $4::tsquery);

-- name: word_lexemes
-- The lexemes of words. $1 text: name of the text search configuration  $2 text[]: words
select tsvector_to_array(to_tsvector($1::text::regconfig, w.word)) as lexemes
from unnest($2::text[]) with ordinality as w (word, place)
order by w.place;
