-- no-transaction
-- What the mock's statement shows as given back.
CREATE INDEX CONCURRENTLY IF NOT EXISTS disputes_reinstated ON mock.disputes (account, reinstated_at) WHERE reinstated_at IS NOT NULL;
