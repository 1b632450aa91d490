-- no-transaction
-- How many came from one network. It replaces transactions_by_address, which the former version reads.
CREATE INDEX CONCURRENTLY IF NOT EXISTS transactions_by_network ON gateway.transactions (account_id, gateway.client_network(client_ip), created_at) WHERE client_ip IS NOT NULL;
