-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS invoices_of_recurring_invoice ON invoices (account_id, recurring_invoice_id, id) WHERE recurring_invoice_id IS NOT NULL;
