-- Claims on passages expire by time: a process that is frozen, or cut off from the network, keeps its sessions for as long as the kernel likes.
--
-- A claim is its holder's until `expires_at` of the claim and of the holder have both passed. The holder renews the one row of its own, whatever
-- it claims; the time in the claim covers a holder whose row another transaction does not see yet. As before, nothing is lost with these tables.

create unlogged table if not exists embedding_holders (
    holder     bigint      primary key,             -- a random number of a process; a new one each time its lease was lost
    expires_at timestamptz not null
);
alter table embedding_claims add column if not exists expires_at timestamptz not null default now();
grant select, insert, update, delete on embedding_holders to livedex_app;
