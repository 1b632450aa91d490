-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS plans_by_external_id ON plans (account_id, external_id, id) WHERE external_id IS NOT NULL;
