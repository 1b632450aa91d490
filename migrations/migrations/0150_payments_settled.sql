-- no-transaction
-- What settled on one day.
CREATE INDEX CONCURRENTLY IF NOT EXISTS payments_settled ON payments (account_id, settled_at)
    WHERE settled_at IS NOT NULL;
