-- no-transaction
-- The list of invoices, by each of its filters.
CREATE INDEX CONCURRENTLY IF NOT EXISTS invoices_by_status ON invoices (account_id, status, id);
