-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS invoices_by_external_id ON invoices (account_id, external_id, id) WHERE external_id IS NOT NULL;
