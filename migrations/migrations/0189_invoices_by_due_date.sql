-- no-transaction
-- Nearly all paid invoices have a due date in the past: without the status, an account with few open ones would read all of them.
CREATE INDEX CONCURRENTLY IF NOT EXISTS invoices_by_due_date ON invoices (account_id, status, due_at, id);
