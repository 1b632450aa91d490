-- no-transaction
-- The stored responses to be erased with a customer.
CREATE INDEX CONCURRENTLY IF NOT EXISTS creation_keys_of_customer ON creation_keys (account_id, customer_id)
    WHERE customer_id IS NOT NULL;
