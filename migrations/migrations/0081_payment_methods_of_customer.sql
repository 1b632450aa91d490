-- no-transaction
-- The saved cards of a customer. Without it, a list of them reads every saved card of the account.
CREATE INDEX CONCURRENTLY IF NOT EXISTS payment_methods_of_customer ON payment_methods (account_id, customer_id, id);
