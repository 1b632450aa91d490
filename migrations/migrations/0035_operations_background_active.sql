-- no-transaction
-- Collections that are under way; what waits for a provider that processes nothing keeps no other account's from beginning.
CREATE INDEX CONCURRENTLY IF NOT EXISTS operations_background_active ON operations (id)
    WHERE background AND finished_at IS NULL AND state <> 'unknown' AND not_processed = 0;
