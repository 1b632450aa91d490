-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS recurring_invoices_by_external_id ON recurring_invoices (account_id, external_id, id) WHERE external_id IS NOT NULL;
