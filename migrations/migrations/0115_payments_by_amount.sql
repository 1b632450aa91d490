-- no-transaction
-- A range of amounts is read by this and sorted, if it is narrow.
CREATE INDEX CONCURRENTLY IF NOT EXISTS payments_by_amount ON payments (account_id, amount, id);
