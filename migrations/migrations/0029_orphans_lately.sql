-- no-transaction
-- Whether money was found of late that no operation stands for.
CREATE INDEX CONCURRENTLY IF NOT EXISTS orphans_found ON orphans (found_at);
