-- no-transaction
-- The list of payment links by status.
CREATE INDEX CONCURRENTLY IF NOT EXISTS payment_links_by_status ON payment_links (account_id, status, id);
