-- no-transaction
-- and receipts.
CREATE INDEX CONCURRENTLY IF NOT EXISTS mails_receipts ON mails (account_id, due_at) WHERE due_at IS NOT NULL AND kind = 'receipt';
