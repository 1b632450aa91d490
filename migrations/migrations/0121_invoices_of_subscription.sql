-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS invoices_of_subscription ON invoices (account_id, subscription_id, id) WHERE subscription_id IS NOT NULL;
