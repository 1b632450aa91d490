-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS payment_methods_of_payment ON payment_methods (account_id, saved_for_payment_id)
    WHERE saved_for_payment_id IS NOT NULL;
