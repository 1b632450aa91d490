-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS payments_by_external_id ON payments (account_id, external_id, id) WHERE external_id IS NOT NULL;
