-- no-transaction
-- The list of subscriptions, by each of its filters; by customer it has an index already.
CREATE INDEX CONCURRENTLY IF NOT EXISTS subscriptions_by_status ON subscriptions (account_id, status, id);
