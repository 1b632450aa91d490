-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS payments_by_currency ON payments (account_id, currency, id);
