-- What contents that were fetched by their URL are recognised by, so that an unchanged one costs one request and nothing else. A row belongs to one
-- version of its document; it is used only while that version is the visible one, and only if what is visible is what was made of that content.

create table fetched_contents (
    tenant_id     text   not null,
    document_id   text   not null,
    version       bigint not null,                  -- that the content was fetched for
    digest        bytea  not null,
    basis         bytea  not null,                  -- SHA-256 of the URL, the rights it was fetched with, and how the content is read and cut
    place         bytea  not null,                  -- SHA-256 of the URL that answered, redirects followed
    etag          text,                             -- as the server said it
    last_modified text,                             -- as the server said it, where it says no ETag
    made          bytea  not null,                  -- SHA-256 of the pieces that were made of it
    outcome       text   not null,                  -- synced or empty
    error         text,
    own           jsonb  not null,                  -- what the content says of itself: title, mime_type, metadata
    fetched_at    timestamptz not null default now(),
    primary key (tenant_id, document_id),
    foreign key (tenant_id, document_id) references documents (tenant_id, document_id) on delete cascade
);
alter table fetched_contents enable row level security;
alter table fetched_contents force row level security;
create policy own_rows on fetched_contents using (tenant_id = (select current_setting('livedex.tenant', true)))
    with check (tenant_id = (select current_setting('livedex.tenant', true)));
grant select, insert, update, delete on fetched_contents to livedex_app;
create trigger refuse_deleted_tenant before insert on fetched_contents for each statement execute function refuse_deleted_tenant();
