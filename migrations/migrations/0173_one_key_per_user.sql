-- no-transaction
CREATE UNIQUE INDEX CONCURRENTLY api_keys_one_per_user ON api_keys (user_id, account_id) WHERE user_id IS NOT NULL;
