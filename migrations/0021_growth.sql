-- Contents and manifests of versions under way are large, few and short-lived: their space is used again soon, whatever share of the table they are.
alter table blobs set (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 10, autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0.0, toast.autovacuum_vacuum_threshold = 2000, toast.autovacuum_vacuum_cost_delay = 0
);
alter table manifests set (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0.0, toast.autovacuum_vacuum_threshold = 500, toast.autovacuum_vacuum_cost_delay = 0
);
alter table queue set (
    toast.autovacuum_vacuum_scale_factor = 0.0, toast.autovacuum_vacuum_threshold = 2000, toast.autovacuum_vacuum_cost_delay = 0
);
