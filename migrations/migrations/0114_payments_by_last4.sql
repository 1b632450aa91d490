-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS payments_by_last4 ON payments (account_id, card_last4, id) WHERE card_last4 IS NOT NULL;
