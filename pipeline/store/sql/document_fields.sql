-- name: write_fields
-- Write rows of fields. $1 text: tenant  $2 bigint[], $3 uuid[]: documents' numbers and sections, each once  $4 text[]: their words for the parser
-- $5 text[]: their exact tokens, with U+001F between  $6 text: name of the text search configuration
insert into document_fields as f (tenant_id, doc_id, section, terms, tsv)
select $1, n.doc_id, n.section, length(n.tsv), n.tsv || array_to_tsvector(string_to_array(n.exact, U&'\001F') || ('@' || left(md5($1), 12)))
from (select u.doc_id, u.section, u.exact, strip(to_tsvector($6::text::regconfig, u.words)) as tsv
      from unnest($2::bigint[], $3::uuid[], $4::text[], $5::text[]) as u (doc_id, section, words, exact)
      offset 0) n
on conflict (doc_id, section) do update set terms = excluded.terms, tsv = excluded.tsv;

-- name: remove_fields
-- Remove all rows of documents, and single ones. $1 text: tenant  $2 bigint[]: documents' numbers
-- $3 bigint[], $4 uuid[]: documents' numbers and sections of single rows
delete from document_fields f
where f.tenant_id = $1 and f.doc_id = any($2::bigint[] || $3::bigint[])
  and (f.doc_id = any($2) or exists (select from unnest($3::bigint[], $4::uuid[]) as g (doc_id, section) where g.doc_id = f.doc_id and g.section = f.section));

-- name: outdated_fields
-- Documents whose fields were not indexed by the settings, locked in the order of their ids. $1 text: tenant  $2 text: settings
-- $3 integer: documents at most
select d.doc_id, d.document_id, d.title, d.metadata,
       (select c.passage_id from chunks c where c.tenant_id = $1 and c.doc_id = d.doc_id order by c.position limit 1) as first_passage,
       coalesce((select jsonb_agg(distinct to_jsonb(c.heading)) from chunks c where c.tenant_id = $1 and c.doc_id = d.doc_id), '[]') as sections
from documents d
where d.tenant_id = $1 and d.chunk_count > 0 and (d.fields_version is distinct from d.version or d.fields_cut is distinct from $2)
order by d.document_id
limit $3
for no key update;

-- name: beginnings
-- $1 text: tenant  $2 bigint[]: passages  $3 integer: characters of each at most
select passage_id, left(content, $3) as content from passages where tenant_id = $1 and passage_id = any($2);

-- name: note_fields
-- $1 text: tenant  $2 bigint[]: documents' numbers  $3 text: settings
update documents set fields_cut = $3, fields_version = version where tenant_id = $1 and doc_id = any($2);

-- name: field_candidates
-- Fields that match, of documents that the reader of the transaction may read; `held`: which of the words stand there. $1 tsquery: what must match
-- $2 tsquery[]: each word alone  $3 double precision[]: their weights  $4 integer: rows at most
select doc_id, section, terms, held from field_candidates($1, $2, $3, $4);

-- name: field_word_counts
-- In how many fields words stand (null: not counted), and how many fields there are with how many terms; one row. $1 text: tenant  $2 text[]: words
select t.fields, t.terms,
       array(select c.fields from unnest($2::text[]) with ordinality as w (word, place)
             left join field_word_counts c on c.tenant_id = $1 and c.word = w.word order by w.place) as counts
from (select) x left join field_totals t on t.tenant_id = $1;

-- name: count_field_words
-- Words in few fields are left out: no count means rare. Only rows that change are written. $1 text: tenant
-- $2 integer: fields that a word must stand in to be kept
with counted as materialized (
    select s.word, s.ndoc as fields
    from ts_stat('select f.tsv from document_fields f where f.tenant_id = current_setting(''livedex.tenant'')') s
    where s.ndoc >= $2 and s.word not like '@%'
), gone as (
    delete from field_word_counts w where w.tenant_id = $1 and not exists (select from counted c where c.word = w.word)
)
insert into field_word_counts as w (tenant_id, word, fields)
select $1, c.word, c.fields from counted c
on conflict (tenant_id, word) do update set fields = excluded.fields where w.fields <> excluded.fields;

-- name: count_fields
-- $1 text: tenant
insert into field_totals (tenant_id, fields, terms)
select $1, count(*), coalesce(sum(f.terms), 0) from document_fields f where f.tenant_id = $1
on conflict (tenant_id) do update set fields = excluded.fields, terms = excluded.terms;

-- name: field_places
-- Where passages stand in documents with matching fields, and the first chunks of sections that match; of documents that are asked for and may be
-- read. `ranks`: `ts_rank` by each word alone, of the passages that are not among the first ones. $1 text: tenant  $2 bigint[]: passages
-- $3 bigint[]: documents' numbers  $4 bigint[], $5 uuid[]: documents' numbers and sections whose first chunks are wanted
-- $6 integer: chunks of each  $7 tsquery[]: words  $8 text[]: collections or null  $9 text[]: documents or null
-- $10 jsonpath: predicate or null  $11 jsonb: the values it names  $12 text[]: principals
with shown as materialized (
    select d.doc_id from documents d
    where d.tenant_id = $1 and d.doc_id = any($3::bigint[])
      and ($8::text[] is null or d.collection = any($8)) and ($9::text[] is null or d.document_id = any($9))
      and ($10::jsonpath is null or jsonb_path_match(case when $11::jsonb ? '@document' then filter_subject(d.metadata, d.document_id, d.source, d.mime_type, d.changed_at, d.synced_at)
                                                else d.metadata end, $10, $11, true))
      and readable(d.acl, d.next_acl, $12) and d.hidden_version is null
), known as (
    select c.passage_id, c.doc_id, md5(array_to_string(c.heading, U&'\001F'))::uuid as section
    from unnest($2::bigint[]) as n (passage_id)
    join chunks c on c.tenant_id = $1 and c.passage_id = n.passage_id
    join shown s on s.doc_id = c.doc_id
), wanted as (
    select w.doc_id, w.section from unnest($4::bigint[], $5::uuid[]) as w (doc_id, section) join shown s on s.doc_id = w.doc_id
), sections as (
    select c.passage_id, c.doc_id, c.position, md5(array_to_string(c.heading, U&'\001F'))::uuid as section
    from chunks c where c.tenant_id = $1 and c.doc_id in (select w.doc_id from wanted w)
), first as (
    select s.passage_id, s.doc_id, s.section, row_number() over (partition by w.doc_id, w.section order by s.position) as place
    from sections s join wanted w on w.doc_id = s.doc_id and w.section in (s.section, '00000000-0000-0000-0000-000000000000')
), added as (
    select distinct f.passage_id, f.doc_id, f.section from first f where f.place <= $6
)
select k.passage_id, k.doc_id, k.section, null::integer as terms, null::real[] as ranks from known k
union all
select a.passage_id, a.doc_id, a.section, p.terms,
       array(select ts_rank(p.tsv, u.word) from unnest($7::tsquery[]) with ordinality as u (word, place) order by u.place)
from added a join passages p on p.tenant_id = $1 and p.passage_id = a.passage_id
where a.passage_id <> all($2);
