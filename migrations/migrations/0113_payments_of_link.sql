-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS payments_of_link ON payments (account_id, payment_link_id, id) WHERE payment_link_id IS NOT NULL;
