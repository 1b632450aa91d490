-- no-transaction
-- The list of refunds, by each of its filters.
CREATE INDEX CONCURRENTLY IF NOT EXISTS refunds_by_status ON refunds (account_id, status, id);
