-- no-transaction
-- upgrade: earlier releases write no user_id.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS api_keys_one_per_user ON api_keys (user_id, account_id) WHERE user_id IS NOT NULL;
