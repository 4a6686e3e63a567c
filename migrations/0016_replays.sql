-- A dead letter stays until its replay has an outcome, so that nothing of it is lost or done twice; and the newest version of a document that was
-- accepted through this database, which a patch builds on.

alter table dead_letters add column if not exists replayed_at timestamptz; -- sent through again, without an outcome yet
alter table issued_versions add column if not exists accepted_version bigint not null default -1; -- the newest whose event the broker holds
