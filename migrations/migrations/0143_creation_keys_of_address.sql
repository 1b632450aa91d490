-- no-transaction
-- The stored responses to be erased with the addresses of a customer. The foreign key to an address needs it too.
CREATE INDEX CONCURRENTLY IF NOT EXISTS creation_keys_of_address ON creation_keys (account_id, address_id)
    WHERE address_id IS NOT NULL;
