-- What keeps up when there is a lot of it.

-- Nonces come and go all the time, several million an hour where many requests are signed: vacuum follows how many went, and
-- not the size of the table.
ALTER TABLE request_nonces SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000);

-- Whoever waits for the lock on a table that is cut by month has everybody wait behind. A tenth of a second is more than any
-- request holds it; it is tried for again half a second later.
ALTER FUNCTION ensure_monthly_partitions(regclass, timestamptz, integer) SET lock_timeout = '100ms';
ALTER FUNCTION drop_monthly_partitions(regclass, timestamptz) SET lock_timeout = '100ms';
