-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS invoices_of_customer ON invoices (account_id, customer_id, id);
