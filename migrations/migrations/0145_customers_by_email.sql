-- no-transaction
-- The list of customers by e-mail address, without the deleted ones, whose address is empty. The condition also keeps
-- Postgres from using this index for a customer's id, by which it does not find one row but reads those of the account.
CREATE INDEX CONCURRENTLY IF NOT EXISTS customers_by_email_address ON customers (account_id, lower(email), id)
    WHERE email <> '';
