-- no-transaction
-- The list of payments, by each of its filters, in its order.
CREATE INDEX CONCURRENTLY IF NOT EXISTS payments_by_status ON payments (account_id, status, id);
