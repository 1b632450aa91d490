-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS subscriptions_by_external_id ON subscriptions (account_id, external_id, id) WHERE external_id IS NOT NULL;
