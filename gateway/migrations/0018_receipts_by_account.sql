-- no-transaction
-- The oldest due receipt of each account.
CREATE INDEX CONCURRENTLY IF NOT EXISTS receipts_by_account ON gateway.receipts (account_id, due_at) WHERE due_at IS NOT NULL;
