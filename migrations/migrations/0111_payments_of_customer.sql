-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS payments_of_customer ON payments (account_id, customer_id, id) WHERE customer_id IS NOT NULL;
