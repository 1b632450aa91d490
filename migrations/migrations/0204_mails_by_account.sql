-- no-transaction
-- Accounts take turns: the e-mails that somebody waits for, which are all but receipts,
CREATE INDEX CONCURRENTLY IF NOT EXISTS mails_awaited ON mails (account_id, due_at) WHERE due_at IS NOT NULL AND kind <> 'receipt';
