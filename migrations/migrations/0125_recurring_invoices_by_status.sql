-- no-transaction
-- The list of recurring invoices by status; by customer it has an index already.
CREATE INDEX CONCURRENTLY IF NOT EXISTS recurring_invoices_by_status ON recurring_invoices (account_id, status, id);
