-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS payment_links_by_external_id ON payment_links (account_id, external_id, id) WHERE external_id IS NOT NULL;
