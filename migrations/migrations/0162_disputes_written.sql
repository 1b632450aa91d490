-- no-transaction
-- What reconciliation looks up at the provider.
CREATE INDEX CONCURRENTLY IF NOT EXISTS disputes_written ON disputes (provider_account_id, written_at);
