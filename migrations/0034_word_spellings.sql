-- Which version of the analyzer wrote the words of a passage; `maintain` rewrites those of an older one. Processes of before name no version and so
-- write the first. The index is empty once all are rewritten.
alter table passages add column if not exists words_version smallint not null default 1;
create index if not exists passages_by_old_words on passages (tenant_id, passage_id) where words_version < 2;
