-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS payment_methods_awaiting ON payment_methods (account_id, awaits_payment_id)
    WHERE awaits_payment_id IS NOT NULL;
