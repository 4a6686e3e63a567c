-- name: fetch_queue
-- Lease rows: first those whose lease ran out, then due ones, by tenants in turn; who holds fewer here is earlier.
-- $1 text: topic  $2 integer: rows at most  $3 double precision: seconds that a lease lasts  $4 uuid: of the new leases
-- $5 text[]: tenants that this process holds rows of  $6 integer[]: how many of each  $7 integer: rows that it holds of one tenant at most
with recursive held as (
    select h.tenant, h.held from unnest($5::text[], $6::integer[]) as h (tenant, held)
), tenant as (
    select (select q.tenant from queue q where q.queue = $1 and q.acquired_token is null order by q.tenant limit 1) as tenant
    union all
    select (select q.tenant from queue q where q.queue = $1 and q.acquired_token is null and q.tenant > t.tenant order by q.tenant limit 1)
    from tenant t where t.tenant is not null
), expired as (
    select q.id from queue q
    where q.queue = $1 and q.acquired_token is not null and q.acquired_at < now() - make_interval(secs => $3::double precision)
    order by q.acquired_at limit $2::integer for update skip locked
), due as (
    select r.id, r.next_attempt_at, coalesce(h.held, 0) + row_number() over (partition by t.tenant order by r.next_attempt_at, r.id) as turn
    from tenant t left join held h on h.tenant = t.tenant
    cross join lateral (
        select q.id, q.next_attempt_at from queue q
        where q.queue = $1 and q.tenant = t.tenant and q.acquired_token is null and q.next_attempt_at <= now()
        order by q.next_attempt_at, q.id limit greatest(least(4 * $2::integer, $7::integer - coalesce(h.held, 0)), 0)
    ) as r
    where t.tenant is not null
), free as (
    select q.id from due d join queue q on q.id = d.id
    where q.acquired_token is null
    order by d.turn, d.next_attempt_at, d.id limit $2::integer for update of q skip locked
)
update queue set acquired_at = now(), acquired_token = $4::uuid, deliveries_count = deliveries_count + 1
where id in (select id from expired union all select id from free limit $2::integer)
returning id, queue, payload, headers::text, attempts_count, deliveries_count, created_at, next_attempt_at, first_attempt_at, last_attempt_at,
          acquired_at, acquired_token, timer_id;
