-- What making the visible version took, for who asks what became of a change.

alter table documents add column if not exists work jsonb; -- {"embedded", "reused", "deleted", "tokens"}; null: not known
