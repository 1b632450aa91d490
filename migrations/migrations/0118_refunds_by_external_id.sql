-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS refunds_by_external_id ON refunds (account_id, external_id, id) WHERE external_id IS NOT NULL;
