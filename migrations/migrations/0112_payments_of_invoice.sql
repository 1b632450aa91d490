-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS payments_of_invoice ON payments (account_id, invoice_id, id) WHERE invoice_id IS NOT NULL;
