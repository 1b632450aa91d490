-- no-transaction
-- upgrade: only the previous version's list by e-mail address becomes slower.
DROP INDEX CONCURRENTLY IF EXISTS customers_of_account_by_email;
